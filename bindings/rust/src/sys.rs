//! The C interface of the runtime as it stands in `aot/abi.h`, whose comments say who owns what,
//! which threads may call and what a failure leaves. Made by `python -m tools.rust_abi`.
#![allow(non_camel_case_types, non_upper_case_globals)]

use std::os::raw::{c_char, c_int, c_uint, c_void};

pub const DLPACK_MAJOR_VERSION: u32 = 1;
pub const DLPACK_MINOR_VERSION: u32 = 0;
pub const AOT_OPERATOR_ABI_VERSION: u32 = 1;
pub const AOT_ABI_VERSION: u32 = 1;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DLPackVersion {
    pub major: u32,
    pub minor: u32,
}

pub type DLDeviceType = c_uint;
pub const kDLCPU: DLDeviceType = 1;
pub const kDLCUDA: DLDeviceType = 2;
pub const kDLCUDAHost: DLDeviceType = 3;
pub const kDLOpenCL: DLDeviceType = 4;
pub const kDLVulkan: DLDeviceType = 7;
pub const kDLMetal: DLDeviceType = 8;
pub const kDLVPI: DLDeviceType = 9;
pub const kDLROCM: DLDeviceType = 10;
pub const kDLROCMHost: DLDeviceType = 11;
pub const kDLExtDev: DLDeviceType = 12;
pub const kDLCUDAManaged: DLDeviceType = 13;
pub const kDLOneAPI: DLDeviceType = 14;
pub const kDLWebGPU: DLDeviceType = 15;
pub const kDLHexagon: DLDeviceType = 16;
pub const kDLMAIA: DLDeviceType = 17;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DLDevice {
    pub device_type: DLDeviceType,
    pub device_id: i32,
}

pub type DLDataTypeCode = c_uint;
pub const kDLInt: DLDataTypeCode = 0;
pub const kDLUInt: DLDataTypeCode = 1;
pub const kDLFloat: DLDataTypeCode = 2;
pub const kDLOpaqueHandle: DLDataTypeCode = 3;
pub const kDLBfloat: DLDataTypeCode = 4;
pub const kDLComplex: DLDataTypeCode = 5;
pub const kDLBool: DLDataTypeCode = 6;
pub const kDLFloat8_e4m3fn: DLDataTypeCode = 10;
pub const kDLFloat8_e4m3fnuz: DLDataTypeCode = 11;
pub const kDLFloat8_e5m2: DLDataTypeCode = 12;
pub const kDLFloat8_e5m2fnuz: DLDataTypeCode = 13;
pub const kDLFloat8_e8m0fnu: DLDataTypeCode = 14;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DLDataType {
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DLTensor {
    pub data: *mut c_void,
    pub device: DLDevice,
    pub ndim: i32,
    pub dtype: DLDataType,
    pub shape: *mut i64,
    pub strides: *mut i64,
    pub byte_offset: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DLManagedTensor {
    pub dl_tensor: DLTensor,
    pub manager_ctx: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(this: *mut DLManagedTensor)>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DLManagedTensorVersioned {
    pub version: DLPackVersion,
    pub manager_ctx: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(this: *mut DLManagedTensorVersioned)>,
    pub flags: u64,
    pub dl_tensor: DLTensor,
}

pub type aot_argument_kind = c_uint;
pub const AOT_ARGUMENT_NONE: aot_argument_kind = 0;
pub const AOT_ARGUMENT_TENSOR: aot_argument_kind = 1;
pub const AOT_ARGUMENT_INT: aot_argument_kind = 2;
pub const AOT_ARGUMENT_FLOAT: aot_argument_kind = 3;
pub const AOT_ARGUMENT_BOOL: aot_argument_kind = 4;
pub const AOT_ARGUMENT_STRING: aot_argument_kind = 5;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct aot_argument {
    pub name: *const c_char,
    pub kind: i32,
    pub is_list: i32,
    pub is_changed: i32,
    pub count: usize,
    pub tensors: *const DLTensor,
    pub ints: *const i64,
    pub floats: *const f64,
    pub strings: *const *const c_char,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct aot_operator_call {
    pub struct_size: usize,
    pub name: *const c_char,
    pub argument_count: usize,
    pub arguments: *const aot_argument,
    pub result_count: usize,
    pub results: *const DLTensor,
    pub stream: *mut c_void,
    pub fail: Option<unsafe extern "C" fn(call: *const aot_operator_call, message: *const c_char)>,
}

pub type aot_operator_fn = Option<unsafe extern "C" fn(call: *const aot_operator_call, user: *mut c_void) -> c_int>;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct aot_operator_registry {
    pub struct_size: usize,
    pub abi_version: u32,
    pub context: *mut c_void,
    pub add: Option<unsafe extern "C" fn(registry: *const aot_operator_registry, name: *const c_char, function: aot_operator_fn, user: *mut c_void, release: Option<unsafe extern "C" fn(user: *mut c_void)>) -> c_int>,
    pub add_for: Option<unsafe extern "C" fn(registry: *const aot_operator_registry, device: *const c_char, name: *const c_char, function: aot_operator_fn, user: *mut c_void, release: Option<unsafe extern "C" fn(user: *mut c_void)>) -> c_int>,
}

pub type aot_operator_library_init_fn = Option<unsafe extern "C" fn(registry: *const aot_operator_registry) -> c_int>;

pub type aot_code = c_uint;
pub const AOT_OK: aot_code = 0;
pub const AOT_INVALID_ARGUMENT: aot_code = 1;
pub const AOT_SHAPE_MISMATCH: aot_code = 2;
pub const AOT_NOT_FOUND: aot_code = 3;
pub const AOT_CORRUPT_PACKAGE: aot_code = 4;
pub const AOT_INCOMPATIBLE: aot_code = 5;
pub const AOT_UNAVAILABLE: aot_code = 6;
pub const AOT_OUT_OF_MEMORY: aot_code = 7;
pub const AOT_DEVICE_ERROR: aot_code = 8;
pub const AOT_UNSUPPORTED: aot_code = 9;
pub const AOT_INTERNAL: aot_code = 10;
pub const AOT_OPERATOR_FAILED: aot_code = 11;
pub const AOT_CANCELLED: aot_code = 12;
pub const AOT_DEADLINE_EXCEEDED: aot_code = 13;
pub const AOT_LIMIT_EXCEEDED: aot_code = 14;
pub const AOT_REFUSED: aot_code = 15;

#[repr(C)]
pub struct aot_status {
    _private: [u8; 0],
}

pub type aot_log_level = c_uint;
pub const AOT_LOG_DEBUG: aot_log_level = 0;
pub const AOT_LOG_INFO: aot_log_level = 1;
pub const AOT_LOG_WARNING: aot_log_level = 2;

pub type aot_log_fn = Option<unsafe extern "C" fn(context: *mut c_void, level: aot_log_level, message: *const c_char)>;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct aot_allocator {
    pub struct_size: usize,
    pub context: *mut c_void,
    pub allocate: Option<unsafe extern "C" fn(context: *mut c_void, size: usize, alignment: usize) -> *mut c_void>,
    pub release: Option<unsafe extern "C" fn(context: *mut c_void, data: *mut c_void, size: usize, alignment: usize)>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct aot_executor {
    pub struct_size: usize,
    pub context: *mut c_void,
    pub workers: i32,
    pub run: Option<unsafe extern "C" fn(context: *mut c_void, count: i32, task: Option<unsafe extern "C" fn(data: *mut c_void, index: i32)>, data: *mut c_void)>,
}

#[repr(C)]
pub struct aot_package {
    _private: [u8; 0],
}

pub type aot_verify = c_uint;
pub const AOT_VERIFY_DEFAULT: aot_verify = 0;
pub const AOT_VERIFY_FULL: aot_verify = 1;
pub const AOT_VERIFY_LAZY: aot_verify = 2;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct aot_limits {
    pub struct_size: usize,
    pub plan_bytes: i64,
    pub arena_bytes: i64,
    pub state_bytes: i64,
    pub output_bytes: i64,
    pub loop_turns: i64,
    pub run_ns: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct aot_policy {
    pub struct_size: usize,
    pub keys: *const *const c_char,
    pub key_count: usize,
    pub signatures: usize,
    pub trust_weights: i32,
    pub no_operator_libraries: i32,
    pub code: *const *const c_char,
    pub code_count: usize,
    pub require_proved: i32,
    pub reserved: i32,
    pub limits: *const aot_limits,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct aot_package_options {
    pub struct_size: usize,
    pub verify: i32,
    pub log: aot_log_fn,
    pub log_context: *mut c_void,
    pub weights: *const c_char,
    pub policy: *const aot_policy,
    pub copy: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct aot_dim_info {
    pub size: i64,
    pub min: i64,
    pub max: i64,
    pub multiple_of: i64,
    pub label: *const c_char,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct aot_tensor_info {
    pub name: *const c_char,
    pub dtype_name: *const c_char,
    pub dtype: DLDataType,
    pub ndim: i32,
    pub dims: *const aot_dim_info,
    pub changed: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct aot_entry_info {
    pub name: *const c_char,
    pub dtype: *const c_char,
    pub ndim: i32,
    pub shape: *const i64,
    pub data: *const c_void,
    pub size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct aot_weight_update {
    pub struct_size: usize,
    pub name: *const c_char,
    pub value: *const DLTensor,
    pub add: i32,
    pub up: *const DLTensor,
    pub down: *const DLTensor,
    pub scale: f64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct aot_replace_options {
    pub struct_size: usize,
    pub partial: i32,
    pub restart: i32,
    pub ignore_unknown: i32,
}

#[repr(C)]
pub struct aot_session {
    _private: [u8; 0],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct aot_session_options {
    pub struct_size: usize,
    pub isa: *const c_char,
    pub num_threads: i32,
    pub executor: *const aot_executor,
    pub allocator: *const aot_allocator,
    pub profile: i32,
    pub host_outputs: i32,
    pub no_graphs: i32,
    pub synchronous: i32,
    pub limits: *const aot_limits,
    pub own_workspace: i32,
    pub reserved: i32,
    pub device_allocator: *const aot_allocator,
}

pub type aot_observer_fn = Option<unsafe extern "C" fn(context: *mut c_void, step: usize, buffer: usize, data: *const c_void, size: usize)>;

#[repr(C)]
pub struct aot_cancellation {
    _private: [u8; 0],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct aot_run_options {
    pub struct_size: usize,
    pub stream: *mut c_void,
    pub host_outputs: i32,
    pub reserved: i32,
    pub timeout_ns: i64,
    pub cancellation: *mut aot_cancellation,
    pub outputs: *const *const DLTensor,
    pub observer: aot_observer_fn,
    pub observer_context: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct aot_memory_info {
    pub struct_size: usize,
    pub plan_bytes: i64,
    pub state_bytes: i64,
    pub workspace_bytes: i64,
    pub shared_bytes: i64,
    pub output_bytes: i64,
    pub plans: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct aot_step_profile {
    pub kernel: *const c_char,
    pub origin: *const c_char,
    pub calls: u64,
    pub nanoseconds: u64,
}

pub type aot_trace_kind = c_uint;
pub const AOT_TRACE_RUN: aot_trace_kind = 0;
pub const AOT_TRACE_PREPARE: aot_trace_kind = 1;
pub const AOT_TRACE_KERNEL: aot_trace_kind = 2;
pub const AOT_TRACE_CHUNK: aot_trace_kind = 3;
pub const AOT_TRACE_CALL: aot_trace_kind = 4;
pub const AOT_TRACE_CONTROL: aot_trace_kind = 5;
pub const AOT_TRACE_COPY: aot_trace_kind = 6;
pub const AOT_TRACE_WAIT: aot_trace_kind = 7;
pub const AOT_TRACE_LAUNCH: aot_trace_kind = 8;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct aot_trace_event {
    pub kind: i32,
    pub on_device: i32,
    pub track: u64,
    pub begin_ns: i64,
    pub end_ns: i64,
    pub run: u64,
    pub name: *const c_char,
    pub what: *const c_char,
    pub origin: *const c_char,
    pub step: i32,
    pub worker: i32,
    pub bytes: i64,
    pub flow: u64,
}

#[repr(C)]
pub struct aot_trace {
    _private: [u8; 0],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct aot_trace_options {
    pub struct_size: usize,
    pub capacity: u64,
    pub nvtx: i32,
    pub no_events: i32,
}

extern "C" {
    pub fn aot_status_code(status: *const aot_status) -> aot_code;
    pub fn aot_status_message(status: *const aot_status) -> *const c_char;
    pub fn aot_status_origin(status: *const aot_status) -> *const c_char;
    pub fn aot_status_free(status: *mut aot_status);
    pub fn aot_code_name(code: aot_code) -> *const c_char;
    pub fn aot_abi_version() -> u32;
    pub fn aot_runtime_version() -> *const c_char;
    pub fn aot_register_operator(name: *const c_char, function: aot_operator_fn, user: *mut c_void, release: Option<unsafe extern "C" fn(user: *mut c_void)>) -> *mut aot_status;
    pub fn aot_register_operator_for(device: *const c_char, name: *const c_char, function: aot_operator_fn, user: *mut c_void, release: Option<unsafe extern "C" fn(user: *mut c_void)>) -> *mut aot_status;
    pub fn aot_package_open(path: *const c_char, options: *const aot_package_options, package: *mut *mut aot_package) -> *mut aot_status;
    pub fn aot_package_open_memory(data: *const c_void, size: usize, options: *const aot_package_options, package: *mut *mut aot_package) -> *mut aot_status;
    pub fn aot_package_free(package: *mut aot_package);
    pub fn aot_package_input_count(package: *const aot_package) -> usize;
    pub fn aot_package_output_count(package: *const aot_package) -> usize;
    pub fn aot_package_input(package: *const aot_package, index: usize) -> *const aot_tensor_info;
    pub fn aot_package_output(package: *const aot_package, index: usize) -> *const aot_tensor_info;
    pub fn aot_package_state_count(package: *const aot_package) -> usize;
    pub fn aot_package_state(package: *const aot_package, index: usize) -> *const aot_tensor_info;
    pub fn aot_package_entry_count(package: *const aot_package) -> usize;
    pub fn aot_package_entry(package: *const aot_package, index: usize) -> *const aot_entry_info;
    pub fn aot_package_find_entry(package: *const aot_package, name: *const c_char) -> *const aot_entry_info;
    pub fn aot_package_read_file(package: *mut aot_package, name: *const c_char, file: *mut *const aot_entry_info) -> *mut aot_status;
    pub fn aot_package_plan(package: *const aot_package, size: *mut usize) -> *const c_char;
    pub fn aot_package_replace_weights(package: *mut aot_package, updates: *const *const aot_weight_update, count: usize, options: *const aot_replace_options) -> *mut aot_status;
    pub fn aot_package_load_weights(package: *mut aot_package, path: *const c_char, options: *const aot_replace_options) -> *mut aot_status;
    pub fn aot_session_create(package: *mut aot_package, device: *const c_char, options: *const aot_session_options, session: *mut *mut aot_session) -> *mut aot_status;
    pub fn aot_session_free(session: *mut aot_session);
    pub fn aot_session_run(session: *mut aot_session, inputs: *const *const DLTensor, input_count: usize, outputs: *mut *mut DLManagedTensor, output_count: usize, stream: *mut c_void) -> *mut aot_status;
    pub fn aot_session_run_versioned(session: *mut aot_session, inputs: *const *const DLTensor, input_count: usize, outputs: *mut *mut DLManagedTensorVersioned, output_count: usize, stream: *mut c_void) -> *mut aot_status;
    pub fn aot_cancellation_create(cancellation: *mut *mut aot_cancellation) -> *mut aot_status;
    pub fn aot_cancellation_free(cancellation: *mut aot_cancellation);
    pub fn aot_cancellation_cancel(cancellation: *mut aot_cancellation);
    pub fn aot_cancellation_reset(cancellation: *mut aot_cancellation);
    pub fn aot_session_run_with(session: *mut aot_session, inputs: *const *const DLTensor, input_count: usize, outputs: *mut *mut DLManagedTensorVersioned, output_count: usize, options: *const aot_run_options) -> *mut aot_status;
    pub fn aot_session_synchronize(session: *mut aot_session) -> *mut aot_status;
    pub fn aot_session_output_sizes(session: *mut aot_session, inputs: *const *const DLTensor, input_count: usize, index: usize, sizes: *mut i64, ndim: usize) -> *mut aot_status;
    pub fn aot_session_prewarm(session: *mut aot_session, inputs: *const *const DLTensor, input_count: usize) -> *mut aot_status;
    pub fn aot_session_memory(session: *mut aot_session, info: *mut aot_memory_info) -> *mut aot_status;
    pub fn aot_session_trim(session: *mut aot_session) -> *mut aot_status;
    pub fn aot_session_get_state(session: *mut aot_session, index: usize, data: *mut c_void, size: usize) -> *mut aot_status;
    pub fn aot_session_set_state(session: *mut aot_session, index: usize, data: *const c_void, size: usize) -> *mut aot_status;
    pub fn aot_session_reset(session: *mut aot_session) -> *mut aot_status;
    pub fn aot_session_clone(session: *mut aot_session, clone: *mut *mut aot_session) -> *mut aot_status;
    pub fn aot_session_device(session: *const aot_session) -> DLDevice;
    pub fn aot_session_stream(session: *const aot_session) -> *mut c_void;
    pub fn aot_session_isa(session: *const aot_session) -> *const c_char;
    pub fn aot_session_num_threads(session: *const aot_session) -> i32;
    pub fn aot_cpu_isa() -> *const c_char;
    pub fn aot_session_set_observer(session: *mut aot_session, observer: aot_observer_fn, context: *mut c_void) -> *mut aot_status;
    pub fn aot_session_profile(session: *mut aot_session, steps: *mut aot_step_profile, capacity: usize, count: *mut usize) -> *mut aot_status;
    pub fn aot_session_profile_reset(session: *mut aot_session) -> *mut aot_status;
    pub fn aot_session_trace_begin(session: *mut aot_session, options: *const aot_trace_options) -> *mut aot_status;
    pub fn aot_session_trace_end(session: *mut aot_session, trace: *mut *mut aot_trace) -> *mut aot_status;
    pub fn aot_trace_count(trace: *const aot_trace) -> usize;
    pub fn aot_trace_event_at(trace: *const aot_trace, index: usize) -> *const aot_trace_event;
    pub fn aot_trace_dropped(trace: *const aot_trace) -> u64;
    pub fn aot_trace_free(trace: *mut aot_trace);
    pub fn aot_package_write_perf_map(package: *mut aot_package) -> *mut aot_status;
    pub fn aot_package_find_input(package: *const aot_package, name: *const c_char, index: *mut usize) -> *mut aot_status;
    pub fn aot_package_find_output(package: *const aot_package, name: *const c_char, index: *mut usize) -> *mut aot_status;
    pub fn aot_package_find_state(package: *const aot_package, name: *const c_char, index: *mut usize) -> *mut aot_status;
    pub fn aot_has_feature(name: *const c_char) -> i32;
    pub fn aot_feature_name(index: usize) -> *const c_char;
    pub fn aot_struct_size(name: *const c_char) -> usize;
    pub fn aot_tensor_dim(tensor: *const aot_tensor_info, axis: usize) -> *const aot_dim_info;
    pub fn aot_session_step_profiles(session: *mut aot_session, steps: *mut aot_step_profile, element_size: usize, capacity: usize, count: *mut usize) -> *mut aot_status;
}
