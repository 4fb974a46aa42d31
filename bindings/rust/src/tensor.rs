//! Tensors: borrowed slices that go in, owned memory that comes out.

use std::marker::PhantomData;
use std::os::raw::c_void;
use std::ptr::NonNull;
use std::slice;

use crate::{sys, Code, DType, Element, Error, Result};

/// A slice of yours with a shape: an input, an output's place, a state's or a weight's value.
pub struct View<'a> {
    data: *mut c_void,
    dtype: DType,
    shape: Vec<i64>,
    writable: bool,
    borrowed: PhantomData<&'a mut [u8]>,
}

impl<'a> View<'a> {
    /// Elements in C order that are read.
    pub fn new<T: Element>(data: &'a [T], shape: &[usize]) -> Result<View<'a>> {
        View::build(data.as_ptr() as *mut c_void, data.len(), T::DTYPE, shape, false)
    }

    /// Elements that a run may write: an input that the model changes, or memory for an output.
    pub fn new_mut<T: Element>(data: &'a mut [T], shape: &[usize]) -> Result<View<'a>> {
        if T::DTYPE == bool::DTYPE {
            // A kernel writes bytes, of which only two are a `bool`.
            let advice = "memory for booleans is given as bytes: View::from_bytes_mut";
            return Err(Error::new(Code::InvalidArgument, advice));
        }
        View::build(data.as_mut_ptr() as *mut c_void, data.len(), T::DTYPE, shape, true)
    }

    /// Bytes of elements that Rust has no type for, such as [`DType::F16`].
    pub fn from_bytes(bytes: &'a [u8], dtype: DType, shape: &[usize]) -> Result<View<'a>> {
        let count = elements_in(bytes, dtype)?;
        View::build(bytes.as_ptr() as *mut c_void, count, dtype, shape, false)
    }

    /// The same for elements that a run may write.
    pub fn from_bytes_mut(bytes: &'a mut [u8], dtype: DType, shape: &[usize]) -> Result<View<'a>> {
        let count = elements_in(bytes, dtype)?;
        View::build(bytes.as_mut_ptr() as *mut c_void, count, dtype, shape, true)
    }

    fn build(
        data: *mut c_void,
        count: usize,
        dtype: DType,
        shape: &[usize],
        writable: bool,
    ) -> Result<View<'a>> {
        let wanted = shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size));
        if wanted != Some(count) {
            let message = format!("a slice of {count} elements does not have the shape {shape:?}");
            return Err(Error::new(Code::ShapeMismatch, message));
        }
        let shape = shape.iter().map(|&size| size as i64).collect();
        Ok(View { data, dtype, shape, writable, borrowed: PhantomData })
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// What the library is given; it points into this view.
    pub(crate) fn raw(&mut self) -> sys::DLTensor {
        sys::DLTensor {
            data: self.data,
            device: sys::DLDevice { device_type: sys::kDLCPU, device_id: 0 },
            ndim: self.shape.len() as i32,
            dtype: self.dtype.raw(),
            shape: self.shape.as_mut_ptr(),
            strides: std::ptr::null_mut(),
            byte_offset: 0,
        }
    }
}

fn elements_in(bytes: &[u8], dtype: DType) -> Result<usize> {
    let size = dtype.size();
    if size == 0 || bytes.len() % size != 0 {
        let message = format!("{} bytes are no whole number of elements of {size}", bytes.len());
        return Err(Error::new(Code::InvalidArgument, message));
    }
    Ok(bytes.len() / size)
}

/// A result: memory of its own, which outlives the session, read by any thread.
pub struct Tensor(NonNull<sys::DLManagedTensorVersioned>);

// SAFETY: nobody writes the memory, and abi.h lets any thread call the deleter at any time.
unsafe impl Send for Tensor {}
unsafe impl Sync for Tensor {}

impl Tensor {
    /// # Safety
    /// The tensor is the caller's, in host memory, and its deleter has not been called.
    pub(crate) unsafe fn take(pointer: *mut sys::DLManagedTensorVersioned) -> Option<Tensor> {
        NonNull::new(pointer).map(Tensor)
    }

    fn raw(&self) -> &sys::DLTensor {
        // SAFETY: valid until the deleter is called, which `drop` does.
        unsafe { &self.0.as_ref().dl_tensor }
    }

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        DType::of(self.raw().dtype)
    }

    /// Its sizes.
    pub fn shape(&self) -> Vec<usize> {
        self.sizes().iter().map(|&size| size as usize).collect()
    }

    /// How many elements it has.
    pub fn len(&self) -> usize {
        self.shape().iter().product()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn sizes(&self) -> &[i64] {
        let raw = self.raw();
        if raw.ndim == 0 {
            return &[];
        }
        // SAFETY: DLPack's shape has `ndim` elements.
        unsafe { slice::from_raw_parts(raw.shape, raw.ndim as usize) }
    }

    /// Elements from one to the next along each axis.
    pub fn strides(&self) -> Vec<i64> {
        let raw = self.raw();
        if raw.strides.is_null() || raw.ndim == 0 {
            return contiguous(self.sizes());
        }
        // SAFETY: as the shape.
        unsafe { slice::from_raw_parts(raw.strides, raw.ndim as usize) }.to_vec()
    }

    /// Whether the elements lie in C order without gaps.
    pub fn is_contiguous(&self) -> bool {
        let (sizes, strides) = (self.sizes(), self.strides());
        self.is_empty()
            || contiguous(sizes)
                .iter()
                .zip(&strides)
                .zip(sizes)
                .all(|((wanted, stride), &size)| size == 1 || wanted == stride)
    }

    /// The bytes of its elements in C order.
    pub fn bytes(&self) -> Result<&[u8]> {
        if !self.is_contiguous() {
            let message = "the elements are not in C order; to_vec copies them";
            return Err(Error::new(Code::Unsupported, message));
        }
        let count = self.len() * self.dtype().size();
        if count == 0 {
            return Ok(&[]);
        }
        // SAFETY: `count` bytes of initialised memory that nobody writes while the tensor lives.
        Ok(unsafe { slice::from_raw_parts(self.start(), count) })
    }

    /// The elements in C order, in place.
    pub fn data<T: Element>(&self) -> Result<&[T]> {
        self.wants::<T>()?;
        let bytes = self.bytes()?;
        if !T::all_valid(bytes) {
            return Err(Error::new(Code::Internal, "a boolean is neither 0 nor 1"));
        }
        if bytes.is_empty() {
            return Ok(&[]);
        }
        let pointer = bytes.as_ptr() as *const T;
        if pointer as usize % std::mem::align_of::<T>() != 0 {
            let message = "the elements are not aligned; to_vec copies them";
            return Err(Error::new(Code::Unsupported, message));
        }
        // SAFETY: aligned, of the type, and as long as said.
        Ok(unsafe { slice::from_raw_parts(pointer, self.len()) })
    }

    /// A copy of the elements in C order, whatever their strides.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.wants::<T>()?;
        let size = std::mem::size_of::<T>();
        let (sizes, strides) = (self.sizes(), self.strides());
        let mut out = Vec::with_capacity(self.len());
        for number in 0..self.len() {
            let (mut rest, mut place) = (number as i64, 0_i64);
            for (&extent, &stride) in sizes.iter().zip(&strides).rev() {
                place += rest % extent * stride;
                rest /= extent;
            }
            // SAFETY: inside of the tensor, by its own sizes and strides; read without alignment.
            unsafe {
                let from = self.start().offset(place as isize * size as isize);
                if !T::all_valid(slice::from_raw_parts(from, size)) {
                    return Err(Error::new(Code::Internal, "a boolean is neither 0 nor 1"));
                }
                out.push((from as *const T).read_unaligned());
            }
        }
        Ok(out)
    }

    fn start(&self) -> *const u8 {
        let raw = self.raw();
        // SAFETY: DLPack's offset lies inside of the allocation.
        unsafe { (raw.data as *const u8).add(raw.byte_offset as usize) }
    }

    fn wants<T: Element>(&self) -> Result<()> {
        if self.dtype() == T::DTYPE {
            return Ok(());
        }
        let message = format!("the elements are {:?}, not {:?}", self.dtype(), T::DTYPE);
        Err(Error::new(Code::InvalidArgument, message))
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: owned; the deleter is called once.
        unsafe {
            if let Some(delete) = self.0.as_ref().deleter {
                delete(self.0.as_ptr());
            }
        }
    }
}

impl std::fmt::Debug for Tensor {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Tensor({:?}, {:?})", self.dtype(), self.shape())
    }
}

fn contiguous(sizes: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; sizes.len()];
    for axis in (1..sizes.len()).rev() {
        strides[axis - 1] = strides[axis] * sizes[axis].max(1);
    }
    strides
}
