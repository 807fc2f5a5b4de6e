//! Heaps of warpheap, `malloc` and `free` for GPU kernels, from Rust: created, read and ended by the
//! host. Kernels in CUDA C++ or PTX get the handle. Without a GPU there is the simulated device:
//!
//! ```
//! use warpheap::{Device, Heap};
//! let device = Device::open("sim")?;
//! let mut heap = Heap::builder(1 << 20).device(&device).create()?;
//! let block = heap.malloc(100)?.expect("there is room");
//! heap.write(block, b"hello")?;
//! assert_eq!(heap.read(block, 5)?, b"hello");
//! heap.free(block)?;
//! assert_eq!(heap.stats()?.live_blocks, Some(0));
//! # Ok::<(), warpheap::Error>(())
//! ```
//!
//! Threads: a heap may go to another thread. Heaps of one device, or of peers, take turns.
pub mod ffi;

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::fmt;
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What the library refused: the status's name, "WH_BAD_ARGUMENT", and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub status: String,
    pub text: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status, self.text)
    }
}

impl std::error::Error for Error {}

pub type Result<T> = std::result::Result<T, Error>;

/// A C string of the library's, which is never NULL.
fn text(p: *const c_char) -> String {
    unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned()
}

fn bad_argument(why: String) -> Error {
    Error {
        status: "WH_BAD_ARGUMENT".into(),
        text: why,
    }
}

fn c_string(s: &str) -> Result<CString> {
    CString::new(s).map_err(|_| bad_argument(format!("{s:?} has a byte 0")))
}

/// Whether wh_last_error_text has a line about a call's failure: types.h says of which calls.
#[derive(Clone, Copy)]
enum Told {
    Yes,
    No,
}

fn check(status: ffi::wh_status, told: Told, device: *mut ffi::wh_device) -> Result<()> {
    if status == 0 {
        return Ok(());
    }
    unsafe {
        let name = text(ffi::wh_status_name(status));
        let mut why = match told {
            _ if name == "WH_DEVICE_ERROR" => text(ffi::wh_device_error_text(device)),
            Told::Yes => text(ffi::wh_last_error_text()),
            Told::No => String::new(),
        };
        if why.is_empty() {
            why = text(ffi::wh_status_text(status));
        }
        Err(Error {
            status: name,
            text: why,
        })
    }
}

/// The version of the library that is loaded, 0.2.0 as 200.
pub fn library_version() -> u32 {
    unsafe { ffi::wh_version() }
}

/// Who calls a device and its heaps: one thread at a time. Devices that are peers run their kernels
/// together, so they have one turn from then on: `next` says whose.
#[derive(Default)]
struct Turn(Mutex<TurnState>);

#[derive(Default)]
struct TurnState {
    taken: bool,
    next: Option<Arc<Turn>>,
}

/// Held to take turns and to end them; waited on by those who find one taken.
static TURNS: Mutex<()> = Mutex::new(());
static TURN_ENDED: Condvar = Condvar::new();

impl Turn {
    fn state(&self) -> MutexGuard<'_, TurnState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what it finds: devices may come and go for long.
    fn last(self: &Arc<Turn>) -> Arc<Turn> {
        let mut turn = self.clone();
        loop {
            let next = turn.state().next.clone();
            match next {
                Some(next) => turn = next,
                None => break,
            }
        }
        if !Arc::ptr_eq(self, &turn) {
            self.state().next = Some(turn.clone());
        }
        turn
    }

    /// The turns of both, as soon as nobody has either.
    fn take(one: &Arc<Turn>, other: &Arc<Turn>) -> Taken {
        let mut all = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let (one, other) = (one.last(), other.last());
            if !one.state().taken && !other.state().taken {
                one.state().taken = true;
                other.state().taken = true;
                return Taken(one, other);
            }
            all = TURN_ENDED.wait(all).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

struct Taken(Arc<Turn>, Arc<Turn>);

impl Taken {
    /// From now on they are one.
    fn join(&self) {
        let _all = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&self.0, &self.1) {
            self.1.state().next = Some(self.0.clone());
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let _all = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.state().taken = false;
        self.1.state().taken = false;
        TURN_ENDED.notify_all();
    }
}

/// A device that is open.
struct Inner {
    pointer: *mut ffi::wh_device,
    turn: Arc<Turn>,
}

// The pointer is used by whoever has the turn.
unsafe impl Send for Inner {}
unsafe impl Sync for Inner {}

impl Inner {
    fn turn(&self) -> Taken {
        Turn::take(&self.turn, &self.turn)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let _turn = self.turn(); // peers that it leaves may run kernels
        unsafe { ffi::wh_device_close(self.pointer) }
    }
}

/// A GPU, or the simulated device. Its heaps keep it open.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

impl Device {
    /// "cuda:0", "cuda" (the current GPU), "sim", or "auto": the current GPU, or the simulated
    /// device where there is none.
    pub fn open(spec: &str) -> Result<Device> {
        Device::open_seeded(spec, 0)
    }

    /// The same, with a seed for the simulated device: another order of its threads.
    pub fn open_seeded(spec: &str, seed: u64) -> Result<Device> {
        let spec = c_string(spec)?;
        let mut sim: ffi::wh_sim_options = unsafe { std::mem::zeroed() };
        sim.struct_bytes = std::mem::size_of_val(&sim) as u64;
        sim.seed = seed;
        sim.policy = i32::from(seed != 0); // random; 0: round-robin
        let mut pointer = ptr::null_mut();
        let status = unsafe { ffi::wh_device_open(&mut pointer, spec.as_ptr(), &sim) };
        check(status, Told::Yes, ptr::null_mut())?;
        Ok(Device(Arc::new(Inner {
            pointer,
            turn: Arc::default(),
        })))
    }

    /// "NVIDIA H200", "simulated device".
    pub fn name(&self) -> String {
        unsafe { text((*ffi::wh_device_get_info(self.0.pointer)).name.as_ptr()) }
    }

    pub fn is_simulated(&self) -> bool {
        unsafe { (*ffi::wh_device_get_info(self.0.pointer)).target == 0 }
    }
}

/// What a heap is to be like.
pub struct Builder {
    bytes: u64,
    device: Option<Device>,
    allocator: Option<String>,
    reserve_bytes: u64,
    options: Vec<(String, u64)>,
}

impl Builder {
    /// Of which device; without it: "auto".
    pub fn device(mut self, device: &Device) -> Self {
        self.device = Some(device.clone());
        self
    }

    /// "tessera" is the default.
    pub fn allocator(mut self, name: &str) -> Self {
        self.allocator = Some(name.into());
        self
    }

    /// Addresses to reserve: the heap can be extended to so many bytes in place.
    pub fn reserve_bytes(mut self, bytes: u64) -> Self {
        self.reserve_bytes = bytes;
        self
    }

    /// An option of the allocator, "tessera.track_peak".
    pub fn option(mut self, name: &str, value: u64) -> Self {
        self.options.push((name.into(), value));
        self
    }

    pub fn create(self) -> Result<Heap> {
        let device = match self.device {
            Some(device) => device,
            None => Device::open("auto")?,
        };
        let allocator = self.allocator.as_deref().map(c_string).transpose()?;
        let mut own: ffi::wh_any_options = unsafe { std::mem::zeroed() };
        for (name, value) in &self.options {
            let name = c_string(name)?;
            let status = unsafe { ffi::wh_options_set(&mut own, name.as_ptr(), *value) };
            check(status, Told::Yes, ptr::null_mut())?;
        }
        let mut options: ffi::wh_heap_options = unsafe { std::mem::zeroed() };
        options.struct_bytes = std::mem::size_of_val(&options) as u64;
        options.bytes = self.bytes;
        options.allocator = allocator.as_ref().map_or(ptr::null(), |name| name.as_ptr());
        options.device = device.0.pointer;
        options.options = if self.options.is_empty() {
            ptr::null()
        } else {
            &own
        };
        options.reserve_bytes = self.reserve_bytes;
        let mut pointer = ptr::null_mut();
        {
            let _turn = device.0.turn();
            let status = unsafe { ffi::wh_heap_create(&mut pointer, &options) };
            check(status, Told::Yes, device.0.pointer)?;
        }
        Ok(Heap { pointer, device })
    }
}

/// Statistics of a quiet heap. None: the allocator does not track it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    pub heap_bytes: Option<u64>,
    pub metadata_bytes: Option<u64>,
    pub used_bytes: Option<u64>,
    pub peak_bytes: Option<u64>,
    pub live_blocks: Option<u64>,
    pub largest_free: Option<u64>,
    pub failed: Option<u64>,
    pub bad_frees: Option<u64>,
    pub mallocs: Option<u64>,
    pub frees: Option<u64>,
    pub classes: Vec<ffi::wh_class_stats>,
}

/// A heap. It ends when it is dropped, or by `close`, which says how that went.
pub struct Heap {
    pointer: *mut ffi::wh_heap,
    device: Device,
}

// By one thread at a time, whichever.
unsafe impl Send for Heap {}

#[repr(u32)]
#[derive(Clone, Copy)]
enum Kind {
    Malloc = 0,
    Free = 4,
    UsableSize = 5,
}

/// Whether these bytes are in one live block.
struct Look {
    address: u64,
    bytes: u64,
    found: bool,
}

/// For wh_heap_walk, which ends when it returns 1.
unsafe extern "C" fn look_at(context: *mut c_void, block: *mut c_void, usable: u64) -> c_int {
    let look = &mut *context.cast::<Look>();
    let (address, bytes, block) = (look.address, look.bytes, block as u64);
    look.found = address >= block && bytes <= usable && address - block <= usable - bytes;
    c_int::from(look.found)
}

impl Heap {
    /// A heap of so many bytes, metadata included.
    pub fn builder(bytes: u64) -> Builder {
        Builder {
            bytes,
            device: None,
            allocator: None,
            reserve_bytes: 0,
            options: Vec::new(),
        }
    }

    /// Makes a call of C on the heap, alone on its device.
    fn call(&self, told: Told, f: impl FnOnce(*mut ffi::wh_heap) -> ffi::wh_status) -> Result<()> {
        let _turn = self.device.0.turn();
        check(f(self.pointer), told, self.device.0.pointer)
    }

    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The heap of C, for calls that this crate does not have: one at a time on its device.
    pub fn as_ptr(&self) -> *mut ffi::wh_heap {
        self.pointer
    }

    /// The word of 64 bits that kernels get which call wh_abi1_malloc and its like
    /// (warpheap_abi.h). WH_UNSUPPORTED: the library was built without these.
    pub fn handle(&mut self) -> Result<u64> {
        type Get = unsafe extern "C" fn(*mut ffi::wh_heap, *mut u64) -> ffi::wh_status;
        let name = c"wh_heap_abi1_handle";
        let found = unsafe { ffi::dlsym(ptr::null_mut(), name.as_ptr()) };
        if found.is_null() {
            return Err(Error {
                status: "WH_UNSUPPORTED".into(),
                text: "the library has no wh_heap_abi1_handle".into(),
            });
        }
        let get: Get = unsafe { std::mem::transmute::<*mut c_void, Get>(found) };
        let mut word = 0;
        self.call(Told::Yes, |h| unsafe { get(h, &mut word) })?;
        Ok(word)
    }

    /// The bytes of a wh_heap_ref, for kernels in CUDA C++ that include warpheap/warpheap.h, of
    /// this version, and get it by value. Of a heap with peers: kernels that are compiled with
    /// WH_PEERS as 1, which nobody checks here.
    pub fn handle_struct(&mut self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let target = i32::from(!self.device.is_simulated());
        self.call(Told::Yes, |h| unsafe {
            bytes.resize(ffi::wh_heap_handle_bytes(h) as usize, 0);
            let kind = ffi::wh_handle_kind {
                struct_bytes: std::mem::size_of::<ffi::wh_handle_kind>() as u64,
                allocator: (*ffi::wh_heap_allocator(h)).name,
                handle_bytes: bytes.len() as u64,
                layout: 0,
                version: library_version(),
                target,
                checks: 1,
                peers: 1,
            };
            ffi::wh_heap_copy_handle(h, &kind, bytes.as_mut_ptr().cast::<c_void>())
        })?;
        Ok(bytes)
    }

    /// Opens the heap to kernels of another device, beside those of its own. On GPUs all these
    /// kernels are compiled with WH_PEERS as 1, and get `handle_struct`. The heap keeps the device
    /// open.
    pub fn enable_peer(&mut self, device: &Device) -> Result<()> {
        let own = &self.device.0;
        let turns = Turn::take(&own.turn, &device.0.turn);
        let status = unsafe { ffi::wh_heap_enable_peer(self.pointer, device.0.pointer) };
        check(status, Told::Yes, own.pointer)?;
        turns.join();
        Ok(())
    }

    /// How many devices these are.
    pub fn peers(&self) -> u32 {
        let _turn = self.device.0.turn();
        unsafe { ffi::wh_heap_peers(self.pointer) }
    }

    /// Gives the memory back. An error of a kernel that used the heap is told here.
    pub fn close(self) -> Result<()> {
        let heap = std::mem::ManuallyDrop::new(self);
        let device = unsafe { ptr::read(&heap.device) }; // dropped behind the call
        let _turn = device.0.turn();
        check(
            unsafe { ffi::wh_heap_destroy(heap.pointer) },
            Told::No,
            device.0.pointer,
        )
    }

    /// Every block is gone.
    pub fn reset(&mut self) -> Result<()> {
        self.call(Told::No, |h| unsafe { ffi::wh_heap_reset(h) })
    }

    /// Verifies every invariant.
    pub fn check(&mut self) -> Result<()> {
        self.call(Told::No, |h| unsafe {
            ffi::wh_heap_check(h, ptr::null_mut())
        })
    }

    pub fn stats(&mut self) -> Result<Stats> {
        let mut c: ffi::wh_stats = unsafe { std::mem::zeroed() };
        c.struct_bytes = std::mem::size_of_val(&c) as u64;
        self.call(Told::No, |h| unsafe { ffi::wh_heap_get_stats(h, &mut c) })?;
        let known = |n: u64| (n != ffi::UNKNOWN).then_some(n);
        Ok(Stats {
            heap_bytes: known(c.heap_bytes),
            metadata_bytes: known(c.metadata_bytes),
            used_bytes: known(c.used_bytes),
            peak_bytes: known(c.peak_bytes),
            live_blocks: known(c.live_blocks),
            largest_free: known(c.largest_free),
            failed: known(c.failed),
            bad_frees: known(c.bad_frees),
            mallocs: known(c.mallocs),
            frees: known(c.frees),
            classes: c.classes[..(c.n_classes as usize).min(ffi::STATS_CLASSES)].to_vec(),
        })
    }

    /// Maps at least so many bytes more, of a heap with `reserve_bytes`.
    pub fn extend(&mut self, bytes: u64) -> Result<()> {
        self.call(Told::Yes, |h| unsafe { ffi::wh_heap_extend(h, bytes) })
    }

    /// Gives memory in which no block lives back to the device; how many bytes.
    pub fn trim(&mut self, keep_bytes: u64) -> Result<u64> {
        let mut given = 0;
        self.call(Told::Yes, |h| unsafe {
            ffi::wh_heap_trim(h, keep_bytes, &mut given)
        })?;
        Ok(given)
    }

    /// The heap's addresses: where it begins, and how many bytes.
    pub fn memory(&self) -> Result<(u64, u64)> {
        let (mut base, mut bytes) = (ptr::null_mut(), 0);
        self.call(Told::No, |h| unsafe {
            ffi::wh_heap_memory(h, &mut base, &mut bytes)
        })?;
        Ok((base as u64, bytes))
    }

    /// Refuses what is not in the heap. Of a heap with `reserve_bytes` some of its addresses have
    /// no memory, so it refuses what is not in one live block there.
    fn bounds(&mut self, address: u64, bytes: u64) -> Result<()> {
        let (base, size) = self.memory()?;
        let inside = address >= base && bytes <= size && address - base <= size - bytes;
        let (mut mapped, mut reserved, mut granule) = (0, 0, 0);
        self.call(Told::No, |h| unsafe {
            ffi::wh_heap_extent(h, &mut mapped, &mut reserved, &mut granule)
        })?;
        let mut look = Look {
            address,
            bytes,
            found: granule == 0 || bytes == 0,
        };
        if inside && !look.found {
            let context: *mut Look = &mut look;
            self.call(Told::No, |h| unsafe {
                ffi::wh_heap_walk(h, Some(look_at), context.cast::<c_void>())
            })?;
        }
        if inside && look.found {
            return Ok(());
        }
        Err(bad_argument(format!(
            "{bytes} bytes from 0x{address:x} on are not in the heap"
        )))
    }

    /// A copy of so many bytes of a block.
    pub fn read(&mut self, address: u64, bytes: usize) -> Result<Vec<u8>> {
        self.bounds(address, bytes as u64)?;
        let mut copy = vec![0u8; bytes];
        let d = self.device.0.pointer;
        if bytes != 0 {
            self.call(Told::No, |_| unsafe {
                let to = copy.as_mut_ptr().cast::<c_void>();
                ffi::wh_device_copy_out(d, to, address as *const c_void, bytes as u64)
            })?;
        }
        Ok(copy)
    }

    /// Copies bytes to an address in the heap.
    pub fn write(&mut self, address: u64, data: &[u8]) -> Result<()> {
        self.bounds(address, data.len() as u64)?;
        let d = self.device.0.pointer;
        if data.is_empty() {
            return Ok(());
        }
        self.call(Told::No, |_| unsafe {
            let from = data.as_ptr().cast::<c_void>();
            ffi::wh_device_copy_in(d, address as *mut c_void, from, data.len() as u64)
        })
    }

    fn make(&mut self, calls: &mut [ffi::wh_heap_call]) -> Result<()> {
        let n = u32::try_from(calls.len())
            .map_err(|_| bad_argument(format!("{} calls are too many", calls.len())))?;
        let size = std::mem::size_of::<ffi::wh_heap_call>();
        self.call(Told::Yes, |h| unsafe {
            ffi::wh_heap_make_calls(h, calls.as_mut_ptr(), size, n)
        })
    }

    fn one(&mut self, kind: Kind, block: u64, bytes: u64) -> Result<ffi::wh_heap_call> {
        let block = block as *mut c_void;
        let mut call = ffi::wh_heap_call {
            kind: kind as u32,
            unused: 0,
            block,
            bytes,
            align: 0,
        };
        self.make(std::slice::from_mut(&mut call))?;
        Ok(call)
    }

    /// On the simulated device: a block, or None where the heap is full. (Of a GPU: kernels do
    /// that.)
    pub fn malloc(&mut self, bytes: u64) -> Result<Option<u64>> {
        let block = self.one(Kind::Malloc, 0, bytes)?.block as u64;
        Ok((block != 0).then_some(block))
    }

    /// Blocks of these sizes, by as many threads at the same time.
    pub fn malloc_each(&mut self, sizes: &[u64]) -> Result<Vec<Option<u64>>> {
        let mut calls: Vec<_> = sizes
            .iter()
            .map(|&bytes| ffi::wh_heap_call {
                kind: Kind::Malloc as u32,
                unused: 0,
                block: ptr::null_mut(),
                bytes,
                align: 0,
            })
            .collect();
        self.make(&mut calls)?;
        Ok(calls
            .iter()
            .map(|c| (!c.block.is_null()).then_some(c.block as u64))
            .collect())
    }

    /// Gives a block back. A pointer that is no block is refused and counted (`bad_frees`).
    pub fn free(&mut self, block: u64) -> Result<()> {
        self.one(Kind::Free, block, 0).map(|_| ())
    }

    /// Bytes that may be used in a block.
    pub fn usable_size(&mut self, block: u64) -> Result<u64> {
        Ok(self.one(Kind::UsableSize, block, 0)?.bytes)
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        let _turn = self.device.0.turn();
        let _ = unsafe { ffi::wh_heap_destroy(self.pointer) };
    }
}
