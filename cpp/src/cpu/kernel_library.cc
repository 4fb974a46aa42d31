#include "cpu/kernel_library.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cpu/isa.h"
#include "error.h"
#include "sha256.h"

namespace aot_rt {
namespace {

constexpr unsigned kExecutable = 0x10u;  // MFD_EXEC, from Linux 6.3

std::string list_levels(const Program& program) {
  std::string text;
  for (const Library& library : program.libraries) {
    text += cat(text.empty() ? "" : ", ", library.isa);
  }
  return text.empty() ? "none" : text;
}

int open_memory_file() {
  int fd = ::memfd_create("aot-kernels", MFD_CLOEXEC | kExecutable);
  if (fd < 0 && errno == EINVAL) fd = ::memfd_create("aot-kernels", MFD_CLOEXEC);
  return fd;
}

bool write_all(int fd, Bytes bytes) {
  for (size_t done = 0; done < bytes.size;) {
    const ssize_t n = ::write(fd, bytes.data + done, bytes.size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

const Library& choose_library(const Program& program, std::string_view isa) {
  const int cpu = cpu_isa_rank();
  const Library* best = nullptr;
  for (const Library& library : program.libraries) {
    const int rank = isa_rank(library.isa);
    if (rank == 0 || rank > cpu || (!isa.empty() && library.isa != isa)) continue;
    if (best == nullptr || rank > isa_rank(best->isa)) best = &library;
  }
  if (best != nullptr) return *best;
  fail(AOT_UNAVAILABLE, "no CPU kernels for ", isa.empty() ? "this CPU" : isa, ": the package has ",
       list_levels(program), "; this CPU supports up to ", isa_name(cpu));
}

KernelLibrary::KernelLibrary(const Library& library, const std::vector<Kernel>& kernels)
    : isa_(library.isa) {
  const std::string digest = sha256_hex(library.entry->bytes);
  if (digest != library.sha256) {
    fail(AOT_CORRUPT_PACKAGE, "checksum of '", library.entry->name, "' is ", digest,
         ", the plan says ", library.sha256);
  }
  try {
    load(library);
    read_table(library, kernels);
  } catch (const Error&) {
    close();
    throw;
  }
}

KernelLibrary::~KernelLibrary() { close(); }

void KernelLibrary::load(const Library& library) {
  fd_ = open_memory_file();
  if (fd_ < 0) {
    fail(AOT_DEVICE_ERROR, "cannot create a memory file for kernels: ", std::strerror(errno));
  }
  if (!write_all(fd_, library.entry->bytes)) {
    fail(AOT_DEVICE_ERROR, "cannot write kernels to a memory file: ", std::strerror(errno));
  }
  const std::string path = cat("/proc/self/fd/", fd_);
  handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) {
    fail(AOT_DEVICE_ERROR, "cannot load '", library.entry->name, "': ", ::dlerror());
  }
}

void KernelLibrary::read_table(const Library& library, const std::vector<Kernel>& kernels) {
  const std::string& name = library.entry->name;
  void* symbol = ::dlsym(handle_, "aot_kernel_library_query");
  if (symbol == nullptr) {
    fail(AOT_CORRUPT_PACKAGE, "'", name, "' does not export aot_kernel_library_query");
  }
  const auto query = reinterpret_cast<aot_kernel_library_query_fn>(symbol);
  const aot_kernel_library* table = query(AOT_KERNEL_ABI_VERSION);
  if (table == nullptr || table->abi_version != AOT_KERNEL_ABI_VERSION) {
    fail(AOT_INCOMPATIBLE, "'", name, "' does not serve kernel ABI version ",
         AOT_KERNEL_ABI_VERSION);
  }
  if (library.isa != table->isa) {
    fail(AOT_CORRUPT_PACKAGE, "'", name, "' is built for ", table->isa, ", the plan says ",
         library.isa);
  }
  if (table->kernel_count != kernels.size()) {
    fail(AOT_CORRUPT_PACKAGE, "'", name, "' has ", table->kernel_count, " kernels, the plan ",
         kernels.size());
  }
  functions_.reserve(kernels.size());
  for (size_t i = 0; i < kernels.size(); ++i) {
    const aot_kernel_entry& row = table->kernels[i];
    if (kernels[i].name != row.name || row.run == nullptr) {
      fail(AOT_CORRUPT_PACKAGE, "'", name, "': kernel ", i, " is '", row.name, "', the plan says '",
           kernels[i].name, "'");
    }
    functions_.push_back(row.run);
  }
}

void KernelLibrary::close() noexcept {
  if (handle_ != nullptr) ::dlclose(handle_);
  if (fd_ >= 0) ::close(fd_);
  handle_ = nullptr;
  fd_ = -1;
}

}  // namespace aot_rt
