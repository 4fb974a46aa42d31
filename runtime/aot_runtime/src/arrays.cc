#include "arrays.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

namespace aot_python {
namespace {

bool lies_on_device(py::handle object) {
  if (!py::hasattr(object, "__dlpack_device__")) return false;
  return object.attr("__dlpack_device__")().cast<std::pair<int, int>>().first != kDLCPU;
}

struct Format {
  DLDataType dtype;
  const char* name;
  const char* code;  // struct module; types that it lacks travel as their bits
};

constexpr Format kFormats[] = {
    {{kDLFloat, 64, 1}, "float64", "d"},
    {{kDLFloat, 32, 1}, "float32", "f"},
    {{kDLFloat, 16, 1}, "float16", "e"},
    {{kDLBfloat, 16, 1}, "bfloat16", "H"},
    {{kDLInt, 64, 1}, "int64", "q"},
    {{kDLInt, 32, 1}, "int32", "i"},
    {{kDLInt, 16, 1}, "int16", "h"},
    {{kDLInt, 8, 1}, "int8", "b"},
    {{kDLUInt, 64, 1}, "uint64", "Q"},
    {{kDLUInt, 32, 1}, "uint32", "I"},
    {{kDLUInt, 16, 1}, "uint16", "H"},
    {{kDLUInt, 8, 1}, "uint8", "B"},
    {{kDLBool, 8, 1}, "bool", "?"},
    {{kDLComplex, 32, 1}, "complex32", "I"},
    {{kDLComplex, 64, 1}, "complex64", "Zf"},
    {{kDLComplex, 128, 1}, "complex128", "Zd"},
    {{kDLFloat8_e4m3fn, 8, 1}, "float8_e4m3fn", "B"},
    {{kDLFloat8_e4m3fnuz, 8, 1}, "float8_e4m3fnuz", "B"},
    {{kDLFloat8_e5m2, 8, 1}, "float8_e5m2", "B"},
    {{kDLFloat8_e5m2fnuz, 8, 1}, "float8_e5m2fnuz", "B"},
    {{kDLFloat8_e8m0fnu, 8, 1}, "float8_e8m0fnu", "B"},
};

// The types of ml_dtypes, which have no buffer format, and the NumPy type of their bits.
struct Foreign {
  const char* name;
  const char* bits;
};

constexpr Foreign kForeign[] = {
    {"complex32", "uint32"},      {"bfloat16", "uint16"},   {"float8_e4m3fn", "uint8"},
    {"float8_e4m3fnuz", "uint8"}, {"float8_e5m2", "uint8"}, {"float8_e5m2fnuz", "uint8"},
    {"float8_e8m0fnu", "uint8"},
};

const Foreign* find_foreign(const std::string& name) {
  for (const Foreign& row : kForeign) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

const Format* find_format(const std::string& name) {
  for (const Format& row : kFormats) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

const Format* find_format(DLDataType dtype) {
  for (const Format& row : kFormats) {
    if (row.dtype.code == dtype.code && row.dtype.bits == dtype.bits) return &row;
  }
  return nullptr;
}

// The element type of a buffer, or lanes 0 when it has none of ours.
DLDataType buffer_dtype(const Py_buffer& buffer) {
  const char* code = buffer.format != nullptr ? buffer.format : "B";
  if (*code == '@' || *code == '=' || *code == '<' || (*code == '>' && buffer.itemsize == 1))
    ++code;
  const bool is_complex = code[0] == 'Z' && (code[1] == 'f' || code[1] == 'd') && code[2] == '\0';
  if (is_complex) return {kDLComplex, static_cast<uint8_t>(buffer.itemsize * 8), 1};
  if (code[0] == '\0' || code[1] != '\0') return {0, 0, 0};
  const auto bits = static_cast<uint8_t>(buffer.itemsize * 8);
  switch (*code) {
    case '?':
      return {kDLBool, 8, 1};
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n':
      return {kDLInt, bits, 1};
    case 'c':
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N':
      return {kDLUInt, bits, 1};
    case 'e':
    case 'f':
    case 'd':
      return {kDLFloat, bits, 1};
    default:
      return {0, 0, 0};
  }
}

// Both round to nearest, ties to even.
uint16_t to_bfloat16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint16_t to_float16(double value) {
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00);
  const double size = std::fabs(value);
  if (size == 0) return sign;
  if (size >= 65520.0) return static_cast<uint16_t>(sign | 0x7c00);
  int exponent = 0;
  std::frexp(size, &exponent);                    // size = m · 2^exponent, m in [0.5, 1)
  const int unit = std::max(exponent - 11, -24);  // exponent of the last place
  const auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(size, -unit)));
  // A subnormal's bits are its steps; above, each binade adds 1024 steps to the code.
  return static_cast<uint16_t>(sign | (steps + static_cast<uint32_t>(unit + 24) * 1024));
}

template <typename T>
void store_as(void* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

bool store_float(void* to, DLDataType dtype, double value) {
  if (dtype.code == kDLBfloat) {
    store_as(to, to_bfloat16(static_cast<float>(value)));
  } else if (dtype.code == kDLFloat && dtype.bits == 64) {
    store_as(to, value);
  } else if (dtype.code == kDLFloat && dtype.bits == 32) {
    store_as(to, static_cast<float>(value));
  } else if (dtype.code == kDLFloat && dtype.bits == 16) {
    store_as(to, to_float16(value));
  } else {
    return false;
  }
  return true;
}

bool store_complex(void* to, DLDataType dtype, Py_complex value) {
  if (dtype.code != kDLComplex) return false;
  const DLDataType part{kDLFloat, static_cast<uint8_t>(dtype.bits / 2), 1};
  return store_float(to, part, value.real) &&
         store_float(static_cast<uint8_t*>(to) + part.bits / 8, part, value.imag);
}

// Python's integers are of any size; uint64 alone holds more than long long.
bool store_int(void* to, DLDataType dtype, PyObject* number) {
  const bool is_signed = dtype.code == kDLInt;
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow > 0 && !is_signed && dtype.bits == 64) {
    const unsigned long long large = PyLong_AsUnsignedLongLong(number);
    const bool fits = PyErr_Occurred() == nullptr;
    PyErr_Clear();
    if (fits) store_as(to, large);
    return fits;
  }
  if (overflow != 0 || (!is_signed && value < 0)) return false;
  const int bits = dtype.bits - (is_signed ? 1 : 0);
  if (bits < 63 && (value >= (1LL << bits) || value < (is_signed ? -(1LL << bits) : 0))) {
    return false;
  }
  std::memcpy(to, &value, dtype.bits / 8);  // little-endian: the low bytes come first
  return true;
}

struct Unversioned {
  DLManagedTensor plain;
  DLManagedTensorVersioned* versioned;
};

void delete_unversioned(DLManagedTensor* self) {
  auto* both = static_cast<Unversioned*>(self->manager_ctx);
  both->versioned->deleter(both->versioned);
  delete both;
}

// A capsule that nobody consumed frees its tensor; a consumer renames it first.
template <typename Managed>
void destroy_capsule(PyObject* capsule, const char* name) {
  if (!PyCapsule_IsValid(capsule, name)) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  managed->deleter(managed);
}

constexpr char kPlainName[] = "dltensor";
constexpr char kVersionedName[] = "dltensor_versioned";

// An array's DLPack capsule. Whether it may be written only the versioned one says, which libraries
// of DLPack before 1.0 do not give.
py::object capsule_of(py::handle object, py::dict arguments, bool written) {
  const py::object method = object.attr("__dlpack__");
  if (!written) return method(**arguments);
  py::dict versioned(arguments.attr("copy")());
  versioned["max_version"] = py::make_tuple(DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
  try {
    return method(**versioned);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return method(**arguments);
}

}  // namespace

void raise(aot_code code, const std::string& message, const std::string& origin) {
  const py::object make = py::module_::import("aot_runtime.errors").attr("from_status");
  const py::object error = make(aot_code_name(code), message, origin);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw py::error_already_set();
}

py::buffer_info buffer_of(const DLTensor& view, bool readonly) {
  const py::ssize_t item = view.dtype.bits / 8;
  std::vector<py::ssize_t> shape(view.shape, view.shape + view.ndim);
  std::vector<py::ssize_t> strides(view.strides, view.strides + view.ndim);
  for (py::ssize_t& stride : strides) stride *= item;
  return py::buffer_info(static_cast<char*>(view.data) + view.byte_offset, item,
                         find_format(view.dtype)->code, view.ndim, std::move(shape),
                         std::move(strides), readonly);
}

const char* dtype_name(DLDataType dtype) { return find_format(dtype)->name; }

Inputs::Inputs(const py::list& leaves, const aot::Package& package, int64_t stream, Role role)
    : stream_(stream), leaves_(leaves.size()) {
  pointers_.reserve(leaves_.size());
  try {
    for (size_t i = 0; i < leaves_.size(); ++i) {
      if (role == Role::kInput) {
        read(leaves_[i], leaves[i], describe(package, i));
      } else if (py::object(leaves[i]).is_none()) {
        pointers_.push_back(nullptr);
        continue;
      } else {
        const bool known = i < package.output_count();
        read_place(leaves_[i], leaves[i], known ? package.output(i).name : "(too many)");
      }
      pointers_.push_back(&leaves_[i].view);
    }
  } catch (...) {
    for (Leaf& leaf : leaves_) {
      if (leaf.buffer.obj != nullptr) PyBuffer_Release(&leaf.buffer);
    }
    throw;
  }
}

Inputs::Inputs(PyObject* const* leaves, size_t count, const aot::Package& package,
               Exchanges* exchanges)
    : stream_(-1), leaves_(count) {
  pointers_.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    Leaf& leaf = leaves_[i];
    if (!read_number(leaf, leaves[i], describe(package, i)) &&
        !read_exchanged(leaf, leaves[i], exchanges)) {
      exchange_ = nullptr;
      return;
    }
    if (exchange_ == nullptr) exchange_ = leaf.exchange;
    pointers_.push_back(&leaf.view);
  }
}

Inputs::~Inputs() {
  for (Leaf& leaf : leaves_) {
    if (leaf.buffer.obj != nullptr) PyBuffer_Release(&leaf.buffer);
  }
}

bool Inputs::any_on_gpu() const {
  return std::any_of(leaves_.begin(), leaves_.end(),
                     [](const Leaf& leaf) { return leaf.view.device.device_type == kDLCUDA; });
}

std::optional<int64_t> Inputs::current_stream() const {
  for (const Leaf& leaf : leaves_) {
    if (leaf.view.device.device_type != kDLCUDA || leaf.exchange == nullptr) continue;
    return aot_python::current_stream(*leaf.exchange, leaf.view.device);
  }
  return std::nullopt;
}

void Inputs::read(Leaf& leaf, py::handle object, const aot_tensor_info* info) {
  const std::string name = info != nullptr ? info->name : "(too many)";
  const bool changed = info != nullptr && info->changed != 0;
  if (read_number(leaf, object, info) || read_buffer(leaf, object, name, changed) ||
      read_dlpack(leaf, object, name, changed)) {
    return;
  }
  raise(AOT_INVALID_ARGUMENT, "input '" + name + "' is of type " + Py_TYPE(object.ptr())->tp_name +
                                  "; give a NumPy array, an object with __dlpack__, or a number");
}

// The caller's memory for an output.
void Inputs::read_place(Leaf& leaf, py::handle object, const std::string& name) {
  if (read_buffer(leaf, object, name, true) || read_dlpack(leaf, object, name, true)) return;
  raise(AOT_INVALID_ARGUMENT, "the memory for output '" + name + "' is of type " +
                                  Py_TYPE(object.ptr())->tp_name +
                                  "; give a NumPy array, an object with __dlpack__, or None");
}

// Python numbers take the type that the model wants, if it can hold them.
bool Inputs::read_number(Leaf& leaf, py::handle object, const aot_tensor_info* info) {
  PyObject* value = object.ptr();
  const bool is_bool = PyBool_Check(value);
  const bool is_int = PyLong_CheckExact(value);
  const bool is_complex = PyComplex_CheckExact(value);
  if (!is_bool && !is_int && !is_complex && !PyFloat_CheckExact(value)) return false;
  if (info == nullptr) return true;
  if (info->changed != 0) {
    raise(AOT_INVALID_ARGUMENT, std::string("the model changes the input '") + info->name +
                                    "', which cannot be a Python number: give a writable array");
  }
  leaf.view.dtype = info->dtype;
  leaf.view.data = leaf.number;
  bool stored = false;
  if (is_bool) {
    stored = info->dtype.code == kDLBool;
    if (stored) store_as(leaf.view.data, static_cast<uint8_t>(value == Py_True));
  } else if (is_int && (info->dtype.code == kDLInt || info->dtype.code == kDLUInt)) {
    stored = store_int(leaf.view.data, info->dtype, value);
  } else if (is_complex || info->dtype.code == kDLComplex) {
    const Py_complex number = PyComplex_AsCComplex(value);
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
    stored = store_complex(leaf.view.data, info->dtype, number);
  } else {
    const double number = is_int ? PyLong_AsDouble(value) : PyFloat_AsDouble(value);
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
    stored = store_float(leaf.view.data, info->dtype, number);
  }
  if (!stored) {
    raise(AOT_INVALID_ARGUMENT, std::string("input '") + info->name + "' is the number " +
                                    std::string(py::repr(object)) + ", which " + info->dtype_name +
                                    " does not hold");
  }
  return true;
}

bool Inputs::read_buffer(Leaf& leaf, py::handle object, const std::string& name, bool changed) {
  if (PyObject_CheckBuffer(object.ptr()) == 0) return false;
  const Foreign* foreign = nullptr;
  if (PyObject_GetBuffer(object.ptr(), &leaf.buffer, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
    // NumPy has no buffer format for the types of ml_dtypes: their bits have one.
    PyErr_Clear();
    if (!py::hasattr(object, "dtype") || !py::hasattr(object, "view")) return false;
    // Arrays of a device may offer a buffer only to refuse it.
    if (lies_on_device(object)) return false;
    const std::string dtype = py::str(object.attr("dtype"));
    foreign = find_foreign(dtype);
    if (foreign == nullptr) {
      raise(AOT_INVALID_ARGUMENT,
            "input '" + name + "' has dtype " + dtype + ", which the runtime does not know");
    }
    leaf.owner = object.attr("view")(foreign->bits);
    if (PyObject_GetBuffer(leaf.owner.ptr(), &leaf.buffer, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
      throw py::error_already_set();
    }
  }
  const Py_buffer& buffer = leaf.buffer;
  if (changed && buffer.readonly != 0) {
    raise(AOT_INVALID_ARGUMENT,
          "the model writes '" + name + "', whose array is read-only: give a writable copy");
  }
  leaf.view.dtype =
      foreign != nullptr ? find_format(std::string(foreign->name))->dtype : buffer_dtype(buffer);
  if (leaf.view.dtype.lanes == 0) {
    raise(AOT_INVALID_ARGUMENT, "input '" + name + "' has elements of format '" +
                                    (buffer.format != nullptr ? buffer.format : "B") +
                                    "', which the runtime does not know");
  }
  const auto rank = static_cast<size_t>(buffer.ndim);
  int64_t* const layout = leaf.make_layout(rank);
  for (size_t i = 0; i < rank; ++i) {
    layout[i] = buffer.shape[i];
    layout[rank + i] = buffer.strides[i] / buffer.itemsize;
    if (buffer.strides[i] % buffer.itemsize != 0 && buffer.shape[i] > 1) {
      raise(AOT_INVALID_ARGUMENT,
            "input '" + name + "' has strides that are no multiples of its element: copy it first");
    }
  }
  leaf.view.data = buffer.buf;
  leaf.view.ndim = buffer.ndim;
  leaf.view.shape = layout;
  leaf.view.strides = layout + rank;
  return true;
}

bool Inputs::read_dlpack(Leaf& leaf, py::handle object, const std::string& name,
                         bool changed) const {
  if (!py::hasattr(object, "__dlpack__")) return false;
  try {
    const auto device = object.attr("__dlpack_device__")().cast<std::pair<int, int>>();
    py::dict arguments;
    // Only devices with streams take the argument.
    if (device.first == kDLCUDA) arguments["stream"] = stream_;
    leaf.owner = capsule_of(object, arguments, changed);
  } catch (const py::error_already_set& error) {
    raise(AOT_INVALID_ARGUMENT,
          "input '" + name + "' does not give its memory: " + std::string(py::str(error.value())));
  }
  PyObject* capsule = leaf.owner.ptr();
  if (PyCapsule_IsValid(capsule, kPlainName)) {
    leaf.view = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kPlainName))->dl_tensor;
    return true;
  }
  if (!PyCapsule_IsValid(capsule, kVersionedName)) return false;
  const auto* managed =
      static_cast<const DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, kVersionedName));
  if (managed->version.major != DLPACK_MAJOR_VERSION) {
    raise(AOT_INCOMPATIBLE, "an input speaks DLPack " + std::to_string(managed->version.major) +
                                ", the runtime " + std::to_string(DLPACK_MAJOR_VERSION));
  }
  if (changed && (managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0) {
    raise(AOT_INVALID_ARGUMENT,
          "the model writes '" + name + "', whose array is read-only: give a writable copy");
  }
  leaf.view = managed->dl_tensor;
  return true;
}

// False where that cannot be known. A call of `__dlpack__` takes ten times as long as the question.
bool is_as_its_memory(py::handle object) {
  static PyObject* const name = PyUnicode_InternFromString("is_conj");
  const auto conjugate =
      py::reinterpret_steal<py::object>(PyObject_CallMethodNoArgs(object.ptr(), name));
  if (!conjugate) PyErr_Clear();
  return conjugate.ptr() == Py_False;
}

// The view's arrays are the library's, which may change them once other threads run: copies.
bool Inputs::read_exchanged(Leaf& leaf, py::handle object, Exchanges* exchanges) {
  const Exchange* exchange = exchanges->find(object);
  if (exchange == nullptr) return false;
  DLTensor view{};
  if (exchange->view_object(object.ptr(), &view) != 0) {
    PyErr_Clear();  // __dlpack__ says it in its words
    return false;
  }
  // A tensor may be the conjugate of its memory: the view does not say so, __dlpack__ refuses.
  if (view.dtype.code == kDLComplex && !is_as_its_memory(object)) return false;
  const auto rank = static_cast<size_t>(view.ndim);
  int64_t* const layout = leaf.make_layout(rank);
  std::copy_n(view.shape, rank, layout);
  leaf.view = view;
  leaf.view.shape = layout;
  if (view.strides != nullptr) {
    std::copy_n(view.strides, rank, layout + rank);
    leaf.view.strides = layout + rank;
  }
  leaf.owner = py::reinterpret_borrow<py::object>(object);
  leaf.exchange = exchange;
  return true;
}

void Output::require() const {
  if (given_) throw py::buffer_error("this output was already given away through __dlpack__");
}

const char* Output::dtype() const { return dtype_name(tensor_.dtype()); }

py::buffer_info Output::buffer() {
  require();
  if (device().device_type != kDLCPU) throw py::buffer_error("this output is on a GPU");
  return buffer_of(tensor_.view(), false);
}

py::capsule Output::dlpack(const py::object& stream, const py::object& max_version) {
  require();
  const int64_t wanted = wanted_stream(stream);
  if (stream_ != 0 && wanted != stream_ && wanted != kNoOrder) {
    const py::gil_scoped_release release;
    const auto result = session_->synchronize();
    if (!result.ok()) {
      const py::gil_scoped_acquire gil;
      raise(result.error());
    }
    stream_ = 0;
  }
  given_ = true;
  return to_capsule(tensor_.release(), max_version);
}

int64_t wanted_stream(const py::object& stream) {
  constexpr int64_t kDefaultStream = 1;
  return stream.is_none() ? kDefaultStream : stream.cast<int64_t>();
}

py::capsule to_capsule(DLManagedTensorVersioned* managed, const py::object& max_version) {
  const auto free = [](DLManagedTensorVersioned* tensor) { tensor->deleter(tensor); };
  std::unique_ptr<DLManagedTensorVersioned, decltype(free)> owner(managed, free);
  if (!max_version.is_none() && max_version.attr("__getitem__")(0).cast<int>() >= 1) {
    py::capsule capsule(managed, kVersionedName, [](PyObject* given) {
      destroy_capsule<DLManagedTensorVersioned>(given, kVersionedName);
    });
    owner.release();
    return capsule;
  }
  auto both = std::make_unique<Unversioned>();
  both->plain.dl_tensor = managed->dl_tensor;
  both->plain.manager_ctx = both.get();
  both->plain.deleter = delete_unversioned;
  both->versioned = managed;
  py::capsule capsule(&both->plain, kPlainName,
                      [](PyObject* given) { destroy_capsule<DLManagedTensor>(given, kPlainName); });
  owner.release();
  both.release();
  return capsule;
}

}  // namespace aot_python
