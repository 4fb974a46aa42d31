// What is precompiled, once for each level: every header that a generated source may include, but
// for aot/linalg, which few packages use and which takes longest to parse.
#ifndef AOT_KERNEL_EVERY_H_
#define AOT_KERNEL_EVERY_H_

#include "aot/kernel/prelude.h"
#include "aot/tmpl/attention.h"
#include "aot/tmpl/bags.h"
#include "aot/tmpl/bf16.h"
#include "aot/tmpl/bytes.h"
#include "aot/tmpl/concat.h"
#include "aot/tmpl/conv.h"
#include "aot/tmpl/depthwise.h"
#include "aot/tmpl/fft.h"
#include "aot/tmpl/fft_open.h"
#include "aot/tmpl/gemm.h"
#include "aot/tmpl/matmul.h"
#include "aot/tmpl/micro.h"
#include "aot/tmpl/pack.h"
#include "aot/tmpl/places.h"
#include "aot/tmpl/planes.h"
#include "aot/tmpl/recurrence.h"
#include "aot/tmpl/resample_bytes.h"
#include "aot/tmpl/scan.h"
#include "aot/tmpl/select.h"
#include "aot/tmpl/simd.h"
#include "aot/tmpl/softmax.h"
#include "aot/tmpl/sort.h"
#include "aot/tmpl/winograd.h"

#endif  // AOT_KERNEL_EVERY_H_
