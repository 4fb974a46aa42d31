/* The C interface compiles as C11, twice. */
#include "aot/abi.h"
#include "aot/abi.h"
#include "aot/dlpack.h"
#include "aot/kernel_abi.h"
#include "aot/kernel_abi.h"
#include "aot/operator_abi.h"
#include "aot/operator_abi.h"

_Static_assert(sizeof(DLDevice) == 8, "DLPack's layout");
_Static_assert(sizeof(DLDataType) == 4, "DLPack's layout");
_Static_assert(sizeof(DLTensor) == 48, "DLPack's layout");
_Static_assert(sizeof(DLManagedTensor) == 64, "DLPack's layout");
_Static_assert(sizeof(DLManagedTensorVersioned) == 80, "DLPack's layout");

int open_nothing_from_c(void);

int open_nothing_from_c(void) {
  aot_package* package = NULL;
  aot_package_options options = {0};
  options.struct_size = sizeof(options);
  aot_status* status = aot_package_open("/no/such/file.pkg", &options, &package);
  const aot_code code = aot_status_code(status);
  aot_status_free(status);
  return package == NULL && code == AOT_NOT_FOUND;
}
