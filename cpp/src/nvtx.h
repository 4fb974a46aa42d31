// Ranges for NVIDIA's tools (Nsight Systems and others), which name what a thread is doing. Spoken
// here is the tools' own protocol: they put the path of a library into the environment of the
// process, and write their functions into the tables that it asks for. Nothing of NVIDIA's is
// needed to build, and without a tool nothing is called.
#ifndef AOT_SRC_NVTX_H_
#define AOT_SRC_NVTX_H_

namespace aot_rt {

// The tool that watches this process. Immutable; lives as long as the process.
class Nvtx {
 public:
  // Asks the environment (NVTX_INJECTION64_PATH) once; nullptr: no tool watches. Throws
  // DEVICE_ERROR where the library that it names cannot be used.
  static const Nvtx* get();

  // Begins a range of this thread; ranges nest. The tool copies `name`.
  void push(const char* name) const { push_(name); }
  void pop() const { pop_(); }

 private:
  using Push = int (*)(const char* message);
  using Pop = int (*)();

  Nvtx(Push push, Pop pop) : push_(push), pop_(pop) {}
  static const Nvtx* attach(const char* path);

  Push push_;
  Pop pop_;
};

}  // namespace aot_rt

#endif  // AOT_SRC_NVTX_H_
