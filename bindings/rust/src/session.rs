//! Sessions: where models run.

use std::ptr::NonNull;
use std::{mem, ptr};

use crate::error::check;
use crate::options::c_text;
use crate::{
    sys, text, Code, Element, Error, Package, Result, RunOptions, SessionOptions, Tensor,
    TensorInfo, View,
};

/// A package made ready to run. Calls from several threads follow each other; for runs at the same
/// time make a session for each thread.
#[derive(Debug)]
pub struct Session {
    raw: NonNull<sys::aot_session>,
    changed: Vec<bool>,
    outputs: usize,
    states: Vec<TensorInfo>,
}

// SAFETY: abi.h: "calls on one session from several threads are serialised".
unsafe impl Send for Session {}
unsafe impl Sync for Session {}

impl Session {
    pub(crate) fn create(package: &Package, options: &SessionOptions) -> Result<Session> {
        let device = c_text(options.device.as_deref())?;
        let isa = c_text(options.isa.as_deref())?;
        // SAFETY: a struct of numbers and pointers, of which zero means the default.
        let mut raw: sys::aot_session_options = unsafe { mem::zeroed() };
        raw.struct_size = mem::size_of::<sys::aot_session_options>();
        raw.isa = isa.as_ref().map_or(ptr::null(), |text| text.as_ptr());
        raw.num_threads = options.num_threads;
        let name = device.as_ref().map_or(ptr::null(), |text| text.as_ptr());
        let mut session = ptr::null_mut();
        // SAFETY: all that the options point to lives until the call returns.
        unsafe { check(sys::aot_session_create(package.as_ptr(), name, &raw, &mut session))? };
        Ok(Session {
            raw: NonNull::new(session).expect("a session on success"),
            changed: package.inputs().iter().map(|input| input.changed).collect(),
            outputs: package.outputs().len(),
            states: package.states(),
        })
    }

    /// Runs the model; outputs are in host memory and yours. Inputs that the model changes are
    /// written, and must be [`View::new_mut`].
    pub fn run(&self, inputs: &mut [View<'_>]) -> Result<Vec<Tensor>> {
        self.run_with(inputs, &RunOptions::default())
    }

    /// The same with a deadline or a cancellation.
    pub fn run_with(
        &self,
        inputs: &mut [View<'_>],
        options: &RunOptions<'_>,
    ) -> Result<Vec<Tensor>> {
        let made = self.call(inputs, None, options)?;
        Ok(made.into_iter().flatten().collect())
    }

    /// Runs the model and writes every output into memory of yours ([`View::new_mut`]).
    pub fn run_into(
        &self,
        inputs: &mut [View<'_>],
        outputs: &mut [View<'_>],
        options: &RunOptions<'_>,
    ) -> Result<()> {
        if outputs.len() != self.outputs || !outputs.iter().all(View::is_writable) {
            let message = format!(
                "the model has {} outputs; {} places are given, and each must be View::new_mut",
                self.outputs,
                outputs.len()
            );
            return Err(Error::new(Code::InvalidArgument, message));
        }
        self.call(inputs, Some(outputs), options).map(drop)
    }

    fn call(
        &self,
        inputs: &mut [View<'_>],
        places: Option<&mut [View<'_>]>,
        options: &RunOptions<'_>,
    ) -> Result<Vec<Option<Tensor>>> {
        for (index, (input, &changed)) in inputs.iter().zip(&self.changed).enumerate() {
            if changed && !input.is_writable() {
                let message = format!("the model changes input {index}: give it as View::new_mut");
                return Err(Error::new(Code::InvalidArgument, message));
            }
        }
        let given: Vec<_> = inputs.iter_mut().map(View::raw).collect();
        let given_pointers: Vec<_> = given.iter().map(|tensor| tensor as *const _).collect();
        let own: Vec<_> = places.into_iter().flatten().map(View::raw).collect();
        let own_pointers: Vec<*const sys::DLTensor> = own.iter().map(|t| t as *const _).collect();
        // SAFETY: a struct of numbers and pointers, of which zero means the default.
        let mut raw: sys::aot_run_options = unsafe { mem::zeroed() };
        raw.struct_size = mem::size_of::<sys::aot_run_options>();
        raw.host_outputs = 1;
        raw.timeout_ns = options
            .timeout
            .map_or(0, |time| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX).max(1));
        raw.cancellation = options.cancellation.map_or(ptr::null_mut(), |c| c.as_ptr());
        raw.outputs = if own.is_empty() { ptr::null() } else { own_pointers.as_ptr() };
        let mut made = vec![ptr::null_mut(); self.outputs];
        // SAFETY: the views borrow their slices until the call returns, when the run is over; what
        // may be written is borrowed mutably, so nothing overlaps it.
        unsafe {
            check(sys::aot_session_run_with(
                self.as_ptr(),
                given_pointers.as_ptr(),
                given_pointers.len(),
                made.as_mut_ptr(),
                made.len(),
                &raw,
            ))?;
            Ok(made.into_iter().map(|pointer| Tensor::take(pointer)).collect())
        }
    }

    /// A copy of a state's elements; positions are those of [`Package::states`].
    pub fn state<T: Element>(&self, index: usize) -> Result<Vec<T>> {
        let count = self.state_len::<T>(index)?;
        let mut bytes = vec![0_u8; count * mem::size_of::<T>()];
        // SAFETY: the buffer is of the size that is said.
        unsafe {
            let to = bytes.as_mut_ptr().cast();
            check(sys::aot_session_get_state(self.as_ptr(), index, to, bytes.len()))?;
        }
        if !T::all_valid(&bytes) {
            return Err(Error::new(Code::Internal, "a boolean is neither 0 nor 1"));
        }
        let parts = bytes.chunks_exact(mem::size_of::<T>());
        // SAFETY: as many bytes as the type has, valid for it.
        Ok(parts.map(|part| unsafe { part.as_ptr().cast::<T>().read_unaligned() }).collect())
    }

    /// Gives a state new elements.
    pub fn set_state<T: Element>(&self, index: usize, values: &[T]) -> Result<()> {
        self.state_len::<T>(index)?;
        let size = mem::size_of_val(values);
        // SAFETY: the library reads `size` bytes, and refuses another size than the state's.
        unsafe {
            check(sys::aot_session_set_state(self.as_ptr(), index, values.as_ptr().cast(), size))
        }
    }

    fn state_len<T: Element>(&self, index: usize) -> Result<usize> {
        let state = self.states.get(index).ok_or_else(|| {
            let message = format!("the model has {} states, none at {index}", self.states.len());
            Error::new(Code::InvalidArgument, message)
        })?;
        if state.dtype != T::DTYPE {
            let message = format!("state '{}' has elements of {}", state.name, state.dtype_name);
            return Err(Error::new(Code::InvalidArgument, message));
        }
        Ok(state.dims.iter().map(|dim| dim.size.unwrap_or(0)).product())
    }

    /// Gives every state its first value again.
    pub fn reset(&self) -> Result<()> {
        // SAFETY: waits for a run in progress.
        unsafe { check(sys::aot_session_reset(self.as_ptr())) }
    }

    /// A second session that goes on from the states of this one.
    pub fn try_clone(&self) -> Result<Session> {
        let mut clone = ptr::null_mut();
        // SAFETY: writes the pointer on success.
        unsafe { check(sys::aot_session_clone(self.as_ptr(), &mut clone))? };
        Ok(Session {
            raw: NonNull::new(clone).expect("a session on success"),
            changed: self.changed.clone(),
            outputs: self.outputs,
            states: self.states.clone(),
        })
    }

    /// The instruction set of its kernels: "x86-64-v3", "sm_90".
    pub fn isa(&self) -> String {
        // SAFETY: the string lives as long as the session, and is copied.
        unsafe { text(sys::aot_session_isa(self.as_ptr())) }
    }

    /// How many threads a run may use.
    pub fn num_threads(&self) -> usize {
        // SAFETY: reads a number.
        unsafe { sys::aot_session_num_threads(self.as_ptr()) as usize }
    }

    /// For the functions of [`sys`]; it stays this session's.
    pub fn as_ptr(&self) -> *mut sys::aot_session {
        self.raw.as_ptr()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: owned, and no run is in progress: each borrows the session.
        unsafe { sys::aot_session_free(self.as_ptr()) }
    }
}
