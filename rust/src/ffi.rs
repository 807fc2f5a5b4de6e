//! The C library's symbols and structures, of the version of this crate. tests/layout.rs compares
//! the structures with the C headers.
#![allow(non_camel_case_types)]
use std::ffi::{c_char, c_int, c_void};

pub const UNKNOWN: u64 = u64::MAX;
pub const STATS_CLASSES: usize = 64;

pub enum wh_device {}
pub enum wh_heap {}
pub type wh_status = c_int;

#[repr(C)]
pub struct wh_memory_source {
    pub alloc: *const c_void,
    pub free: *const c_void,
    pub user: *mut c_void,
}

#[repr(C)]
pub struct wh_heap_options {
    pub struct_bytes: u64,
    pub bytes: u64,
    pub allocator: *const c_char,
    pub device: *mut wh_device,
    pub memory: *mut c_void,
    pub options: *const wh_any_options,
    pub reserve_bytes: u64,
    pub source: wh_memory_source,
    pub cuda_pool: *mut c_void,
}

#[repr(C)]
pub struct wh_any_options {
    pub family: *const c_char,
    pub struct_bytes: u64,
    pub values: [u64; 16],
}

#[repr(C)]
pub struct wh_sim_options {
    pub struct_bytes: u64,
    pub seed: u64,
    pub policy: c_int,
    pub policy_arg: u32,
    pub n_sms: u32,
    pub blocks_per_sm: u32,
    pub workers: u32,
    pub step_budget: u64,
    pub memory_bytes: u64,
    pub weak: u32,
    pub record: *const c_char,
    pub replay: *const c_char,
    pub switches: *const c_char,
    pub schedules: *const c_char,
}

#[repr(C)]
pub struct wh_device_info {
    pub target: c_int,
    pub name: [c_char; 128],
    pub driver: [c_char; 64],
    pub n_sms: u32,
    pub ordinal: i32,
    pub memory_bytes: u64,
    pub shared_bytes: u32,
    pub blocks_per_sm: u32,
}

/// Blocks of one size class.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct wh_class_stats {
    pub block_bytes: u64,
    pub live: u64,
    pub capacity: u64,
}

#[repr(C)]
pub struct wh_stats {
    pub struct_bytes: u64,
    pub heap_bytes: u64,
    pub metadata_bytes: u64,
    pub used_bytes: u64,
    pub peak_bytes: u64,
    pub live_blocks: u64,
    pub largest_free: u64,
    pub failed: u64,
    pub bad_frees: u64,
    pub mallocs: u64,
    pub frees: u64,
    pub n_classes: u32,
    pub timed_out: u32,
    pub classes: [wh_class_stats; STATS_CLASSES],
}

#[repr(C)]
pub struct wh_heap_call {
    pub kind: u32,
    pub unused: u32,
    pub block: *mut c_void,
    pub bytes: u64,
    pub align: u64,
}

#[repr(C)]
pub struct wh_handle_kind {
    pub struct_bytes: u64,
    pub allocator: *const c_char,
    pub handle_bytes: u64,
    pub layout: u64,
    pub version: u32,
    pub target: c_int,
    pub checks: u64,
    pub peers: u64,
}

#[repr(C)]
pub struct wh_allocator_info {
    pub name: *const c_char,
    pub title: *const c_char,
    pub source: *const c_char,
    pub caps: u32,
    pub max_align: u32,
    pub max_size: u64,
    pub family: *const c_char,
}

pub type wh_visit_fn =
    Option<unsafe extern "C" fn(context: *mut c_void, block: *mut c_void, usable: u64) -> c_int>;

extern "C" {
    /// Of the C library: finds a symbol that a library may lack.
    pub fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    pub fn wh_version() -> u32;
    pub fn wh_status_name(status: wh_status) -> *const c_char;
    pub fn wh_status_text(status: wh_status) -> *const c_char;
    pub fn wh_last_error_text() -> *const c_char;
    pub fn wh_options_set(o: *mut wh_any_options, name: *const c_char, value: u64) -> wh_status;
    pub fn wh_device_open(
        device: *mut *mut wh_device,
        spec: *const c_char,
        sim: *const wh_sim_options,
    ) -> wh_status;
    pub fn wh_device_close(device: *mut wh_device);
    pub fn wh_device_get_info(device: *const wh_device) -> *const wh_device_info;
    pub fn wh_device_error_text(device: *const wh_device) -> *const c_char;
    pub fn wh_device_copy_in(
        device: *mut wh_device,
        to: *mut c_void,
        from: *const c_void,
        bytes: u64,
    ) -> wh_status;
    pub fn wh_device_copy_out(
        device: *mut wh_device,
        to: *mut c_void,
        from: *const c_void,
        bytes: u64,
    ) -> wh_status;
    pub fn wh_heap_create(heap: *mut *mut wh_heap, options: *const wh_heap_options) -> wh_status;
    pub fn wh_heap_destroy(heap: *mut wh_heap) -> wh_status;
    pub fn wh_heap_memory(
        heap: *const wh_heap,
        base: *mut *mut c_void,
        bytes: *mut u64,
    ) -> wh_status;
    pub fn wh_heap_reset(heap: *mut wh_heap) -> wh_status;
    pub fn wh_heap_extend(heap: *mut wh_heap, bytes: u64) -> wh_status;
    pub fn wh_heap_trim(heap: *mut wh_heap, keep: u64, given_back: *mut u64) -> wh_status;
    pub fn wh_heap_extent(
        heap: *const wh_heap,
        mapped: *mut u64,
        reserved: *mut u64,
        granule: *mut u64,
    ) -> wh_status;
    pub fn wh_heap_enable_peer(heap: *mut wh_heap, device: *mut wh_device) -> wh_status;
    pub fn wh_heap_peers(heap: *const wh_heap) -> u32;
    pub fn wh_heap_allocator(heap: *const wh_heap) -> *const wh_allocator_info;
    pub fn wh_heap_handle_bytes(heap: *const wh_heap) -> u64;
    pub fn wh_heap_copy_handle(
        heap: *const wh_heap,
        kind: *const wh_handle_kind,
        handle: *mut c_void,
    ) -> wh_status;
    pub fn wh_heap_get_stats(heap: *mut wh_heap, stats: *mut wh_stats) -> wh_status;
    pub fn wh_heap_check(heap: *mut wh_heap, report: *mut c_void) -> wh_status;
    pub fn wh_heap_walk(heap: *mut wh_heap, visit: wh_visit_fn, context: *mut c_void) -> wh_status;
    pub fn wh_heap_make_calls(
        heap: *mut wh_heap,
        calls: *mut wh_heap_call,
        call_bytes: usize,
        n: u32,
    ) -> wh_status;
}
