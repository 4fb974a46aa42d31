#include "verify/cubin.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "error.h"

namespace aot_rt {
namespace {

constexpr uint16_t kCudaMachine = 190;  // EM_CUDA
constexpr uint32_t kFatMagic = 0xba55ed50;
constexpr uint32_t kFatWrapper = 0x466243b1;
constexpr uint64_t kMaxSections = 65536;

class Checker {
 public:
  Checker(Bytes code, std::string_view name) : code_(code), name_(name) {}

  void check(std::string_view arch) {
    if (code_.size < sizeof(uint32_t)) wrong("is no ELF file");
    uint32_t magic = 0;
    std::memcpy(&magic, code_.data, sizeof(magic));
    if (magic == kFatMagic || magic == kFatWrapper) wrong("is an archive of codes (fatbin)");
    if (std::memcmp(code_.data, ELFMAG, SELFMAG) != 0) {
      wrong(looks_like_text() ? "is text such as PTX, which a driver would compile"
                              : "is no ELF file");
    }
    if (code_.size < sizeof(header_)) wrong("is cut off in its ELF header");
    std::memcpy(&header_, code_.data, sizeof(header_));
    if (header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB) {
      wrong("is no 64-bit little-endian ELF file");
    }
    if (header_.e_machine != kCudaMachine) {
      wrong(cat("is ELF code for machine ", header_.e_machine, ", not for CUDA"));
    }
    check_architecture(arch);
    check_table("program headers", header_.e_phoff, header_.e_phnum, header_.e_phentsize,
                sizeof(Elf64_Phdr));
    check_table("section headers", header_.e_shoff, header_.e_shnum, header_.e_shentsize,
                sizeof(Elf64_Shdr));
    check_sections();
    check_segments();
  }

 private:
  [[noreturn]] void wrong(const std::string& problem) const {
    fail(AOT_CORRUPT_PACKAGE, "device code '", name_, "' ", problem);
  }

  bool looks_like_text() const {
    for (size_t i = 0; i < code_.size && i < 64; ++i) {
      const uint8_t byte = code_.data[i];
      if (byte != '\t' && byte != '\n' && byte != '\r' && (byte < 0x20 || byte > 0x7e))
        return false;
    }
    return true;
  }

  // The number of an architecture is in the flags: in their lowest byte, since ABI version 8 in the
  // second one.
  void check_architecture(std::string_view arch) const {
    const std::string low = cat("sm_", header_.e_flags & 0xff);
    const std::string high = cat("sm_", (header_.e_flags >> 8) & 0xff);
    if (arch == low || arch == high) return;
    wrong(cat("is code for ", low, ", the program is for ", arch));
  }

  bool within(uint64_t offset, uint64_t size) const {
    return offset <= code_.size && size <= code_.size - offset;
  }

  void check_table(const char* what, uint64_t offset, uint64_t count, uint64_t row,
                   size_t expected) const {
    if (count == 0) return;
    if (count > kMaxSections || row != expected || !within(offset, count * row)) {
      wrong(cat("has ", what, " beyond its end"));
    }
  }

  void check_sections() const {
    for (uint64_t i = 0; i < header_.e_shnum; ++i) {
      Elf64_Shdr section;
      std::memcpy(&section, code_.data + header_.e_shoff + i * sizeof(section), sizeof(section));
      if (section.sh_type == SHT_NULL || section.sh_type == SHT_NOBITS) continue;
      if (!within(section.sh_offset, section.sh_size)) {
        wrong(cat("has a section (", i, ") beyond its end"));
      }
    }
  }

  void check_segments() const {
    for (uint64_t i = 0; i < header_.e_phnum; ++i) {
      Elf64_Phdr segment;
      std::memcpy(&segment, code_.data + header_.e_phoff + i * sizeof(segment), sizeof(segment));
      if (!within(segment.p_offset, segment.p_filesz)) {
        wrong(cat("has a segment (", i, ") beyond its end"));
      }
    }
  }

  Bytes code_;
  std::string_view name_;
  Elf64_Ehdr header_{};
};

}  // namespace

void check_cubin(Bytes code, std::string_view arch, std::string_view name) {
  Checker(code, name).check(arch);
}

}  // namespace aot_rt
