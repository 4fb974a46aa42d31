// Calls on the shortest way: arrays of one library in, arrays of the same library out, and between
// the two nothing of Python's.
#ifndef AOT_PYTHON_CALLER_H_
#define AOT_PYTHON_CALLER_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "aot/aot.hpp"
#include "exchange.h"

namespace aot_python {

namespace py = pybind11;

// A session's runs from arrays to arrays of the first one's library, in its current stream, where
// DLPack's exchange tables allow it. Needs the GIL, which it gives up while the session runs.
class ExchangedRuns {
 public:
  // `allocator`: what the session's memory comes from, kept as long as the session; may be nullptr.
  ExchangedRuns(std::shared_ptr<aot::Package> package, std::shared_ptr<const void> allocator,
                std::shared_ptr<aot::Session> session)
      : package_(std::move(package)),
        allocator_(std::move(allocator)),
        session_(std::move(session)) {}

  // The outputs as a list; no object where the tables do not allow it. Throws what the run fails
  // with, as a Python exception.
  py::object run(PyObject* const* leaves, size_t count);

 private:
  std::shared_ptr<aot::Package> package_;
  std::shared_ptr<const void> allocator_;
  std::shared_ptr<aot::Session> session_;
  Exchanges exchanges_;
};

// A callable of `inputs` arrays, which gives what `build` makes of the list of outputs, and
// NotImplemented for another number of arguments, for keywords, and where ExchangedRuns has no
// way. `inputs`: -1: no number is right.
py::object make_caller(std::shared_ptr<ExchangedRuns> runs, py::ssize_t inputs, py::object build);

}  // namespace aot_python

#endif  // AOT_PYTHON_CALLER_H_
