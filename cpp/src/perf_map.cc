#include "perf_map.h"

#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "descriptor.h"
#include "error.h"

namespace aot_rt {
namespace {

struct Search {
  uintptr_t address;
  uintptr_t end;  // of the mapping that holds it; 0: none does
};

int look_into(dl_phdr_info* object, size_t /*size*/, void* context) {
  auto* search = static_cast<Search*>(context);
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr) & part = object->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    const uintptr_t begin = object->dlpi_addr + part.p_vaddr;
    if (search->address < begin || search->address >= begin + part.p_memsz) continue;
    search->end = begin + part.p_memsz;
    return 1;
  }
  return 0;
}

uintptr_t end_of_mapping(uintptr_t address) {
  Search search{address, 0};
  ::dl_iterate_phdr(look_into, &search);
  return search.end;
}

// Appends to a name in /tmp that others may have taken first: not followed, and refused if it is
// not ours.
void append_text(const std::string& path, const std::string& text) {
  const int fd =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
             S_IRUSR | S_IWUSR);
  if (fd < 0) fail(AOT_DEVICE_ERROR, "cannot open '", path, "': ", std::strerror(errno));
  const Descriptor owner(fd);
  struct stat info{};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != ::geteuid()) {
    fail(AOT_DEVICE_ERROR, "'", path, "' is not a file of this user's: remove it");
  }
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(AOT_DEVICE_ERROR, "cannot write '", path, "': ", std::strerror(errno));
    done += static_cast<size_t>(n);
  }
}

}  // namespace

void append_perf_map(std::vector<NamedCode> code) {
  std::sort(code.begin(), code.end(),
            [](const NamedCode& a, const NamedCode& b) { return a.begin < b.begin; });
  std::string text;
  for (size_t i = 0; i < code.size(); ++i) {
    uintptr_t end = end_of_mapping(code[i].begin);
    if (i + 1 < code.size()) end = std::min(end, code[i + 1].begin);
    if (end <= code[i].begin) continue;  // two kernels with the same code: the last has it
    char place[48];
    std::snprintf(place, sizeof(place), "%zx %zx ", static_cast<size_t>(code[i].begin),
                  static_cast<size_t>(end - code[i].begin));
    text += cat(place, code[i].name, "\n");
  }
  append_text(cat("/tmp/perf-", ::getpid(), ".map"), text);
}

}  // namespace aot_rt
