//! Packages, and what they say of their tensors.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::{mem, ptr};

use crate::error::check;
use crate::{
    sys, text, Code, DType, Error, PackageOptions, Result, Session, SessionOptions, Verify,
};

/// One dimension of an input, output or state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dim {
    /// `None`: dynamic.
    pub size: Option<usize>,
    /// The least size.
    pub min: usize,
    /// The greatest size; `None`: unbounded.
    pub max: Option<usize>,
    /// 1 when free.
    pub multiple_of: usize,
    /// "batch", "s0 * 2", "64".
    pub label: String,
}

/// One input, output or state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name, as `inspect` shows it.
    pub name: String,
    /// "float32".
    pub dtype_name: String,
    /// The type of its elements.
    pub dtype: DType,
    /// Its dimensions.
    pub dims: Vec<Dim>,
    /// Of an input: a run writes a new value into the caller's memory ([`crate::View::new_mut`]).
    pub changed: bool,
}

/// An open package: share it between threads, and make a session for each worker.
#[derive(Debug)]
pub struct Package(NonNull<sys::aot_package>);

// SAFETY: abi.h: "Safe to share between threads".
unsafe impl Send for Package {}
unsafe impl Sync for Package {}

impl Package {
    /// Maps and checks a file. It must not be changed in place while it is open.
    pub fn open(path: impl AsRef<Path>) -> Result<Package> {
        Package::open_with(path, &PackageOptions::default())
    }

    /// The same with options.
    pub fn open_with(path: impl AsRef<Path>, options: &PackageOptions) -> Result<Package> {
        // SAFETY: takes nothing.
        let version = unsafe { sys::aot_abi_version() };
        if version != sys::AOT_ABI_VERSION {
            let message = format!(
                "this crate speaks version {} of the C interface, the library that was found {version}",
                sys::AOT_ABI_VERSION
            );
            return Err(Error::new(Code::Incompatible, message));
        }
        let path = CString::new(path.as_ref().as_os_str().as_bytes())?;
        let weights = options
            .weights
            .as_ref()
            .map(|path| CString::new(path.as_os_str().as_bytes()))
            .transpose()?;
        let keys = options
            .keys
            .iter()
            .map(|key| Ok(CString::new(key.as_str())?))
            .collect::<Result<Vec<_>>>()?;
        let key_pointers: Vec<_> = keys.iter().map(|key| key.as_ptr()).collect();
        let mut policy: sys::aot_policy = zeroed_policy();
        policy.keys = if keys.is_empty() { ptr::null() } else { key_pointers.as_ptr() };
        policy.key_count = keys.len();
        policy.no_operator_libraries = options.no_operator_libraries.into();
        policy.require_proved = options.require_proved.into();
        let raw = sys::aot_package_options {
            struct_size: mem::size_of::<sys::aot_package_options>(),
            verify: match options.verify {
                Verify::Default => sys::AOT_VERIFY_DEFAULT,
                Verify::Full => sys::AOT_VERIFY_FULL,
                Verify::Lazy => sys::AOT_VERIFY_LAZY,
            } as i32,
            log: None,
            log_context: ptr::null_mut(),
            weights: weights.as_ref().map_or(ptr::null(), |path| path.as_ptr()),
            policy: &policy,
            copy: options.copy.into(),
        };
        let mut package = ptr::null_mut();
        // SAFETY: all that the options point to lives until the call returns.
        unsafe { check(sys::aot_package_open(path.as_ptr(), &raw, &mut package))? };
        Ok(Package(NonNull::new(package).expect("a package on success")))
    }

    /// A session on the CPU.
    pub fn session(&self) -> Result<Session> {
        self.session_with(&SessionOptions::default())
    }

    /// A session with a device, an instruction set, a number of threads.
    pub fn session_with(&self, options: &SessionOptions) -> Result<Session> {
        Session::create(self, options)
    }

    /// What a run takes, in order.
    pub fn inputs(&self) -> Vec<TensorInfo> {
        // SAFETY: the pointers live as long as the package, and are copied.
        unsafe {
            let count = sys::aot_package_input_count(self.as_ptr());
            (0..count).map(|i| info(sys::aot_package_input(self.as_ptr(), i))).collect()
        }
    }

    /// What a run gives, in order.
    pub fn outputs(&self) -> Vec<TensorInfo> {
        // SAFETY: as above.
        unsafe {
            let count = sys::aot_package_output_count(self.as_ptr());
            (0..count).map(|i| info(sys::aot_package_output(self.as_ptr(), i))).collect()
        }
    }

    /// Buffers of the model that runs change; each session has its own.
    pub fn states(&self) -> Vec<TensorInfo> {
        // SAFETY: as above.
        unsafe {
            let count = sys::aot_package_state_count(self.as_ptr());
            (0..count).map(|i| info(sys::aot_package_state(self.as_ptr(), i))).collect()
        }
    }

    /// The position of an input; the error lists the names that there are.
    pub fn find_input(&self, name: &str) -> Result<usize> {
        self.find(name, sys::aot_package_find_input)
    }

    /// The position of an output.
    pub fn find_output(&self, name: &str) -> Result<usize> {
        self.find(name, sys::aot_package_find_output)
    }

    /// The position of a state.
    pub fn find_state(&self, name: &str) -> Result<usize> {
        self.find(name, sys::aot_package_find_state)
    }

    fn find(&self, name: &str, how: Finder) -> Result<usize> {
        let name = CString::new(name)?;
        let mut index = 0;
        // SAFETY: the name lives until the call returns.
        unsafe { check(how(self.as_ptr(), name.as_ptr(), &mut index))? };
        Ok(index)
    }

    /// New weights from a safetensors file, in all sessions at once; with `partial`, weights that
    /// the file does not have stay. Packages are built for that with `--swappable`.
    pub fn load_weights(&self, path: impl AsRef<Path>, partial: bool) -> Result<()> {
        let path = CString::new(path.as_ref().as_os_str().as_bytes())?;
        let options = sys::aot_replace_options {
            struct_size: mem::size_of::<sys::aot_replace_options>(),
            partial: partial.into(),
            restart: 0,
            ignore_unknown: 0,
        };
        // SAFETY: abi.h allows it from any thread, while others run.
        unsafe { check(sys::aot_package_load_weights(self.as_ptr(), path.as_ptr(), &options)) }
    }

    /// For the functions of [`sys`]; it stays this package's.
    pub fn as_ptr(&self) -> *mut sys::aot_package {
        self.0.as_ptr()
    }
}

impl Drop for Package {
    fn drop(&mut self) {
        // SAFETY: the reference is ours; sessions hold their own.
        unsafe { sys::aot_package_free(self.as_ptr()) }
    }
}

type Finder = unsafe extern "C" fn(
    *const sys::aot_package,
    *const std::os::raw::c_char,
    *mut usize,
) -> *mut sys::aot_status;

fn zeroed_policy() -> sys::aot_policy {
    sys::aot_policy {
        struct_size: mem::size_of::<sys::aot_policy>(),
        keys: ptr::null(),
        key_count: 0,
        signatures: 0,
        trust_weights: 0,
        no_operator_libraries: 0,
        code: ptr::null(),
        code_count: 0,
        require_proved: 0,
        reserved: 0,
        limits: ptr::null(),
    }
}

/// # Safety
/// `pointer` is one of the library's.
unsafe fn info(pointer: *const sys::aot_tensor_info) -> TensorInfo {
    unsafe {
        let raw = &*pointer;
        TensorInfo {
            name: text(raw.name),
            dtype_name: text(raw.dtype_name),
            dtype: DType::of(raw.dtype),
            dims: (0..raw.ndim as usize)
                .map(|axis| dim(&*sys::aot_tensor_dim(pointer, axis)))
                .collect(),
            changed: raw.changed != 0,
        }
    }
}

fn dim(raw: &sys::aot_dim_info) -> Dim {
    Dim {
        size: usize::try_from(raw.size).ok(),
        min: raw.min as usize,
        max: usize::try_from(raw.max).ok(),
        multiple_of: raw.multiple_of as usize,
        // SAFETY: the library's string.
        label: unsafe { text(raw.label) },
    }
}
