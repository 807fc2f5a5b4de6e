# The C library: its structures and functions, of the version of this package. tests/julia/calls.py
# compares both with the C headers, without Julia.
import Libdl

const UNKNOWN = typemax(UInt64)
const MALLOC, FREE, USABLE_SIZE = UInt32(0), UInt32(4), UInt32(5) # of heap_calls.h

struct CMemorySource # wh_memory_source
    alloc::Ptr{Cvoid}
    free::Ptr{Cvoid}
    user::Ptr{Cvoid}
end

struct CAnyOptions # wh_any_options
    family::Ptr{UInt8}
    struct_bytes::UInt64
    values::NTuple{16, UInt64}
end

struct CHeapOptions # wh_heap_options
    struct_bytes::UInt64
    bytes::UInt64
    allocator::Cstring
    device::Ptr{Cvoid}
    memory::Ptr{Cvoid}
    options::Ptr{CAnyOptions}
    reserve_bytes::UInt64
    source::CMemorySource
    cuda_pool::Ptr{Cvoid}
end

struct CSimOptions # wh_sim_options
    struct_bytes::UInt64
    seed::UInt64
    policy::Cint
    policy_arg::UInt32
    n_sms::UInt32
    blocks_per_sm::UInt32
    workers::UInt32
    step_budget::UInt64
    memory_bytes::UInt64
    weak::UInt32
    record::Ptr{UInt8}
    replay::Ptr{UInt8}
    switches::Ptr{UInt8}
    schedules::Ptr{UInt8}
end

struct CDeviceInfo # wh_device_info
    target::Cint
    name::NTuple{128, UInt8}
    driver::NTuple{64, UInt8}
    n_sms::UInt32
    ordinal::Int32
    memory_bytes::UInt64
    shared_bytes::UInt32
    blocks_per_sm::UInt32
end

struct CClassStats # wh_class_stats
    block_bytes::UInt64
    live::UInt64
    capacity::UInt64
end

struct CStats # wh_stats
    struct_bytes::UInt64
    heap_bytes::UInt64
    metadata_bytes::UInt64
    used_bytes::UInt64
    peak_bytes::UInt64
    live_blocks::UInt64
    largest_free::UInt64
    failed::UInt64
    bad_frees::UInt64
    mallocs::UInt64
    frees::UInt64
    n_classes::UInt32
    timed_out::UInt32
    classes::NTuple{64, CClassStats}
end

struct CHeapCall # wh_heap_call
    kind::UInt32
    unused::UInt32
    block::UInt64 # an address
    bytes::UInt64
    align::UInt64
end

struct CHandleKind # wh_handle_kind
    struct_bytes::UInt64
    allocator::Ptr{UInt8}
    handle_bytes::UInt64
    layout::UInt64
    version::UInt32
    target::Cint
    checks::UInt64
    peers::UInt64
end

struct CAllocatorInfo # wh_allocator_info
    name::Ptr{UInt8}
    title::Ptr{UInt8}
    source::Ptr{UInt8}
    caps::UInt32
    max_align::UInt32
    max_size::UInt64
    family::Ptr{UInt8}
end

const loaded = Ref{Ptr{Cvoid}}(C_NULL)

# libwarpheap.so, loaded when it is first needed: WARPHEAP_LIBRARY is its path.
function library()
    if loaded[] == C_NULL
        path = get(ENV, "WARPHEAP_LIBRARY", "libwarpheap.so.0.2")
        opened = Libdl.dlopen(path; throw_error = false)
        opened === nothing &&
            error("warpheap: $path cannot be loaded: WARPHEAP_LIBRARY says where it is")
        n = ccall(Libdl.dlsym(opened, :wh_version), UInt32, ())
        # Its structures are those of one minor version.
        div(n, 100) == 2 || error("warpheap: $path is of version $n, this package knows 0.2")
        loaded[] = opened
    end
    return loaded[]
end
fn(name) = Libdl.dlsym(library(), name)

version() = ccall(fn(:wh_version), UInt32, ())
status_name(status) = ccall(fn(:wh_status_name), Ptr{UInt8}, (Cint,), status)
status_text(status) = ccall(fn(:wh_status_text), Ptr{UInt8}, (Cint,), status)
last_error_text() = ccall(fn(:wh_last_error_text), Ptr{UInt8}, ())
options_set(own, name, value) =
    ccall(fn(:wh_options_set), Cint, (Ref{CAnyOptions}, Cstring, UInt64), own, name, value)

device_open(found, name, sim) =
    ccall(fn(:wh_device_open), Cint, (Ref{Ptr{Cvoid}}, Cstring, Ref{CSimOptions}), found, name,
          sim)
device_close(device) = ccall(fn(:wh_device_close), Cvoid, (Ptr{Cvoid},), device)
device_get_info(device) =
    ccall(fn(:wh_device_get_info), Ptr{CDeviceInfo}, (Ptr{Cvoid},), device)
device_error_text(device) = ccall(fn(:wh_device_error_text), Ptr{UInt8}, (Ptr{Cvoid},), device)
device_copy_in(device, to, from, bytes) =
    ccall(fn(:wh_device_copy_in), Cint, (Ptr{Cvoid}, Ptr{Cvoid}, Ptr{UInt8}, UInt64), device, to,
          from, bytes)
device_copy_out(device, to, from, bytes) =
    ccall(fn(:wh_device_copy_out), Cint, (Ptr{Cvoid}, Ptr{UInt8}, Ptr{Cvoid}, UInt64), device, to,
          from, bytes)

heap_create(found, options) =
    ccall(fn(:wh_heap_create), Cint, (Ref{Ptr{Cvoid}}, Ref{CHeapOptions}), found, options)
heap_destroy(heap) = ccall(fn(:wh_heap_destroy), Cint, (Ptr{Cvoid},), heap)
heap_device(heap) = ccall(fn(:wh_heap_device), Ptr{Cvoid}, (Ptr{Cvoid},), heap)
heap_memory(heap, base, bytes) =
    ccall(fn(:wh_heap_memory), Cint, (Ptr{Cvoid}, Ref{Ptr{Cvoid}}, Ref{UInt64}), heap, base, bytes)
heap_reset(heap) = ccall(fn(:wh_heap_reset), Cint, (Ptr{Cvoid},), heap)
heap_extend(heap, bytes) = ccall(fn(:wh_heap_extend), Cint, (Ptr{Cvoid}, UInt64), heap, bytes)
heap_trim(heap, keep, given) =
    ccall(fn(:wh_heap_trim), Cint, (Ptr{Cvoid}, UInt64, Ref{UInt64}), heap, keep, given)
heap_extent(heap, mapped, reserved, granule) =
    ccall(fn(:wh_heap_extent), Cint, (Ptr{Cvoid}, Ref{UInt64}, Ref{UInt64}, Ref{UInt64}), heap,
          mapped, reserved, granule)
heap_enable_peer(heap, device) =
    ccall(fn(:wh_heap_enable_peer), Cint, (Ptr{Cvoid}, Ptr{Cvoid}), heap, device)
heap_peers(heap) = ccall(fn(:wh_heap_peers), UInt32, (Ptr{Cvoid},), heap)
heap_allocator(heap) = ccall(fn(:wh_heap_allocator), Ptr{CAllocatorInfo}, (Ptr{Cvoid},), heap)
heap_handle_bytes(heap) = ccall(fn(:wh_heap_handle_bytes), UInt64, (Ptr{Cvoid},), heap)
heap_copy_handle(heap, kind, bytes) =
    ccall(fn(:wh_heap_copy_handle), Cint, (Ptr{Cvoid}, Ref{CHandleKind}, Ptr{UInt8}), heap, kind,
          bytes)
heap_get_stats(heap, words) =
    ccall(fn(:wh_heap_get_stats), Cint, (Ptr{Cvoid}, Ptr{UInt64}), heap, words)
heap_check(heap, report) = ccall(fn(:wh_heap_check), Cint, (Ptr{Cvoid}, Ptr{Cvoid}), heap, report)
heap_walk(heap, visit, words) =
    ccall(fn(:wh_heap_walk), Cint, (Ptr{Cvoid}, Ptr{Cvoid}, Ptr{UInt64}), heap, visit, words)
heap_make_calls(heap, calls, call_bytes, n) =
    ccall(fn(:wh_heap_make_calls), Cint, (Ptr{Cvoid}, Ptr{CHeapCall}, Csize_t, UInt32), heap, calls,
          call_bytes, n)
heap_abi1_handle(heap, found) =
    ccall(fn(:wh_heap_abi1_handle), Cint, (Ptr{Cvoid}, Ref{Culonglong}), heap, found)
