/* gpu_tensors: a library of arrays "on a GPU" (host memory that says so), as fast as one can be,
 * with DLPack's table of C functions. Tensor(size): float32[size, size]. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "aot/dlpack.h"

typedef struct {
  PyObject_HEAD DLTensor view;
  int64_t layout[4]; /* of a tensor of our own: shape, strides */
  void* memory;
  DLManagedTensorVersioned* managed; /* of one that was taken over */
  char requires_grad;
} Tensor;

static PyTypeObject TensorType;

static PyObject* tensor_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  (void)kwargs;
  long long size = 0;
  if (!PyArg_ParseTuple(args, "L", &size)) return NULL;
  Tensor* self = (Tensor*)type->tp_alloc(type, 0);
  if (self == NULL) return NULL;
  const int64_t layout[4] = {size, size, size, 1};
  memcpy(self->layout, layout, sizeof(layout));
  self->memory = aligned_alloc(256, ((size_t)(size * size) * 4 + 255) / 256 * 256);
  self->view.data = self->memory;
  self->view.device.device_type = kDLCUDA;
  self->view.ndim = 2;
  self->view.dtype.code = kDLFloat;
  self->view.dtype.bits = 32;
  self->view.dtype.lanes = 1;
  self->view.shape = self->layout;
  self->view.strides = self->layout + 2;
  return (PyObject*)self;
}

static void tensor_free(PyObject* object) {
  Tensor* self = (Tensor*)object;
  free(self->memory);
  if (self->managed != NULL) self->managed->deleter(self->managed);
  Py_TYPE(object)->tp_free(object);
}

static int to_object(DLManagedTensorVersioned* managed, void** result) {
  Tensor* self = (Tensor*)TensorType.tp_alloc(&TensorType, 0);
  if (self == NULL) return -1;
  self->managed = managed;
  self->view = managed->dl_tensor;
  *result = self;
  return 0;
}

static int view_object(void* object, DLTensor* view) {
  *view = ((Tensor*)object)->view;
  return 0;
}

static int current_stream(DLDeviceType type, int32_t index, void** stream) {
  (void)type, (void)index;
  *stream = NULL;
  return 0;
}

static struct {
  DLPackVersion version;
  void *older, *allocate, *managed_from_object;
  int (*to_object)(DLManagedTensorVersioned*, void**);
  int (*view_object)(void*, DLTensor*);
  int (*current_stream)(DLDeviceType, int32_t, void**);
} table = {{1, 3}, NULL, NULL, NULL, to_object, view_object, current_stream};

static PyMemberDef members[] = {
    {"requires_grad", T_BOOL, offsetof(Tensor, requires_grad), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyTypeObject TensorType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "gpu_tensors.Tensor",
    .tp_basicsize = sizeof(Tensor),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = tensor_new,
    .tp_dealloc = tensor_free,
    .tp_members = members,
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "gpu_tensors", NULL, -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_gpu_tensors(void) {
  PyObject* capsule = PyCapsule_New(&table, "dlpack_exchange_api", NULL);
  TensorType.tp_dict = PyDict_New();
  if (capsule == NULL || TensorType.tp_dict == NULL ||
      PyDict_SetItemString(TensorType.tp_dict, "__dlpack_c_exchange_api__", capsule) != 0 ||
      PyType_Ready(&TensorType) != 0) {
    return NULL;
  }
  Py_DECREF(capsule);
  PyObject* module = PyModule_Create(&definition);
  if (module != NULL) PyModule_AddObjectRef(module, "Tensor", (PyObject*)&TensorType);
  return module;
}
