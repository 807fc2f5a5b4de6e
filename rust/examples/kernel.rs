//! kernel.rs: lists of which each has another length, made by a kernel in CUDA C++ in a heap that
//! Rust owns, and read by Rust. CUDA's driver is loaded here, so that no crate is needed for it.
//!
//!     nvcc -rdc=true -arch=sm_90 -cubin -Iinclude rust/examples/kernel.cu -o part.cubin
//!     nvcc -dlink -arch=sm_90 -cubin part.cubin build/warpheap_abi.fatbin -o kernel.cubin
//!     cargo run --manifest-path rust/Cargo.toml --example kernel -- cuda kernel.cubin
//!
//! `-- sim`: on the simulated device, where the host asks for the blocks. Exit status 77: no GPU.
use std::ffi::{c_char, c_int, c_uint, c_void, CStr, CString};
use std::process::ExitCode;
use std::ptr;
use warpheap::{ffi::dlsym, Device, Heap};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;
const N: u32 = 1000;

extern "C" {
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
}

/// CUDA's driver, by the names of its functions.
struct Driver(*mut c_void);

impl Driver {
    fn load() -> Fallible<Driver> {
        let now = 2; // RTLD_NOW
        let library = unsafe { dlopen(c"libcuda.so.1".as_ptr(), now) };
        if library.is_null() {
            return Err("there is no libcuda.so.1".into());
        }
        Ok(Driver(library))
    }

    /// A function's address.
    fn find(&self, name: &CStr) -> Fallible<*mut c_void> {
        let found = unsafe { dlsym(self.0, name.as_ptr()) };
        if found.is_null() {
            return Err(format!("the driver has no {name:?}").into());
        }
        Ok(found)
    }
}

/// Calls one with arguments of these types. Another result than 0 is an error.
macro_rules! call {
    ($driver:expr, $name:literal, $($argument:expr => $type:ty),*) => {{
        type Function = unsafe extern "C" fn($($type),*) -> c_int;
        let function: Function = unsafe { std::mem::transmute($driver.find($name)?) };
        match unsafe { function($($argument),*) } {
            0 => {}
            error => return Err(format!("{:?} returned {error}", $name).into()),
        }
    }};
}

/// The kernels of a file of machine code, in the context of the first GPU, which the library uses.
struct Module {
    driver: Driver,
    module: *mut c_void,
}

impl Module {
    fn load(file: &str) -> Fallible<Module> {
        let driver = Driver::load()?;
        let (mut context, mut module) = (ptr::null_mut(), ptr::null_mut());
        let file = CString::new(file)?;
        call!(driver, c"cuInit", 0 => c_uint);
        call!(driver, c"cuDevicePrimaryCtxRetain", &mut context => *mut *mut c_void, 0 => c_int);
        call!(driver, c"cuCtxSetCurrent", context => *mut c_void);
        call!(driver, c"cuModuleLoad", &mut module => *mut *mut c_void,
              file.as_ptr() => *const c_char);
        Ok(Module { driver, module })
    }

    /// Runs one of them with N threads, and waits.
    fn run(&self, name: &CStr, mut heap: u64, mut lists: u64) -> Fallible<()> {
        let (mut kernel, mut n) = (ptr::null_mut(), N);
        call!(self.driver, c"cuModuleGetFunction", &mut kernel => *mut *mut c_void,
              self.module => *mut c_void, name.as_ptr() => *const c_char);
        let mut arguments: [*mut c_void; 3] = [
            (&mut heap as *mut u64).cast(),
            (&mut lists as *mut u64).cast(),
            (&mut n as *mut u32).cast(),
        ];
        call!(self.driver, c"cuLaunchKernel", kernel => *mut c_void,
              N.div_ceil(256) => c_uint, 1 => c_uint, 1 => c_uint,
              256 => c_uint, 1 => c_uint, 1 => c_uint, 0 => c_uint,
              ptr::null_mut() => *mut c_void, arguments.as_mut_ptr() => *mut *mut c_void,
              ptr::null_mut() => *mut *mut c_void);
        call!(self.driver, c"cuCtxSynchronize",);
        Ok(())
    }

    /// Memory for N addresses.
    fn addresses(&self) -> Fallible<u64> {
        let mut at = 0u64;
        call!(self.driver, c"cuMemAlloc_v2", &mut at => *mut u64, 8 * N as usize => usize);
        Ok(at)
    }

    fn copy(&self, at: u64) -> Fallible<Vec<u64>> {
        let mut copy = vec![0u64; N as usize];
        call!(self.driver, c"cuMemcpyDtoH_v2", copy.as_mut_ptr() => *mut u64, at => u64,
              8 * N as usize => usize);
        Ok(copy)
    }
}

/// The numbers 0 to i, as bytes.
fn list(i: u32) -> Vec<u8> {
    (0..=i).flat_map(u32::to_ne_bytes).collect()
}

/// How many of the lists are as they should be.
fn right(heap: &mut Heap, lists: &[u64]) -> warpheap::Result<usize> {
    let mut n = 0;
    for (i, &address) in (0..).zip(lists) {
        let expected = list(i);
        n += usize::from(address != 0 && heap.read(address, expected.len())? == expected);
    }
    Ok(n)
}

/// The lists by the host, on the simulated device.
fn simulated(heap: &mut Heap) -> Fallible<(usize, Option<u64>)> {
    let sizes: Vec<u64> = (1..=u64::from(N)).map(|n| 4 * n).collect();
    let found = heap.malloc_each(&sizes)?;
    let lists: Vec<u64> = found.into_iter().map(|p| p.unwrap_or(0)).collect();
    for (i, &address) in (0..).zip(&lists) {
        if address != 0 {
            heap.write(address, &list(i))?;
        }
    }
    let live = heap.stats()?.live_blocks;
    let n = right(heap, &lists)?;
    lists.iter().try_for_each(|&address| heap.free(address))?;
    Ok((n, live))
}

/// The lists by kernels.
fn on_gpu(heap: &mut Heap, file: &str) -> Fallible<(usize, Option<u64>)> {
    let module = Module::load(file)?;
    let (handle, lists) = (heap.handle()?, module.addresses()?);
    module.run(c"make_lists", handle, lists)?;
    let live = heap.stats()?.live_blocks;
    let n = right(heap, &module.copy(lists)?)?;
    module.run(c"free_lists", handle, lists)?;
    Ok((n, live))
}

fn main() -> Fallible<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let on = arguments.first().map_or("sim", String::as_str);
    let device = match Device::open(on) {
        Err(error) if error.status == "WH_NO_DEVICE" => {
            println!("skipped: {error}");
            return Ok(ExitCode::from(77));
        }
        device => device?,
    };
    let mut heap = Heap::builder(64 << 20).device(&device).create()?;
    let (n, live) = match arguments.get(1) {
        _ if device.is_simulated() => simulated(&mut heap)?,
        Some(file) => on_gpu(&mut heap, file)?,
        None => return Err("of a GPU: kernel cuda FILE.cubin".into()),
    };
    heap.check()?;
    let left = heap.stats()?.live_blocks;
    println!("{}: {n} of {N} lists are right", device.name());
    println!("blocks: {live:?} with the lists, {left:?} at the end");
    let good = n == N as usize && live == Some(u64::from(N)) && left == Some(0);
    heap.close()?;
    Ok(ExitCode::from(u8::from(!good)))
}
