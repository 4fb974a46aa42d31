// An open file's descriptor and its owner.
#ifndef AOT_SRC_DESCRIPTOR_H_
#define AOT_SRC_DESCRIPTOR_H_

#include <unistd.h>

namespace aot_rt {

// Closes the file at the end of a scope; not copied.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

 private:
  int fd_;
};

}  // namespace aot_rt

#endif  // AOT_SRC_DESCRIPTOR_H_
