"""
Heaps of warpheap, `malloc` and `free` for GPU kernels, from Julia: created, read and ended by the
host. Kernels in CUDA C++ or PTX get the handle. Without a GPU there is the simulated device.
docs/JULIA.md has an example, which test/runtests.jl runs.
"""
module WarpHeap

export Device, Heap, WarpHeapError, malloc, free, usable_size, stats, check, reset!, extend!, trim!,
    handle, handle_struct, enable_peer!, peers, memory, library_version

include("library.jl")

"""
    WarpHeapError(status, text)

What the library refused: the status's name, "WH_BAD_ARGUMENT", and why.
"""
struct WarpHeapError <: Exception
    status::String
    text::String
end
Base.showerror(io::IO, e::WarpHeapError) = print(io, e.status, ": ", e.text)

bad_argument(why) = throw(WarpHeapError("WH_BAD_ARGUMENT", why))

"An argument that is a number of 64 bits."
function word(n::Integer, what)
    0 <= n <= typemax(UInt64) || bad_argument("$what is $n: it must be from 0 to 2^64 - 1")
    return UInt64(n)
end

"Text for C, which ends with a zero."
function c_text(text)
    '\0' in text && bad_argument("$(repr(text)) has a byte 0")
    return String(text)
end

# told: wh_last_error_text has a line about the call's failure; types.h says of which calls.
function must(status::Cint, told::Bool, device::Ptr{Cvoid} = C_NULL)
    status == 0 && return nothing
    name = unsafe_string(status_name(status))
    why = ""
    if name == "WH_DEVICE_ERROR" && device != C_NULL
        why = unsafe_string(device_error_text(device))
    elseif told
        why = unsafe_string(last_error_text())
    end
    throw(WarpHeapError(name, isempty(why) ? unsafe_string(status_text(status)) : why))
end

"The version of the library that is loaded, `v\"0.2.0\"`."
function library_version()
    n = version()
    return VersionNumber(div(n, 10000), div(n, 100) % 100, n % 100)
end

# Who calls a device and its heaps: one thread at a time. Devices that are peers run their kernels
# together, so they have one turn from then on: `next` says whose.
mutable struct Turn
    lock::ReentrantLock
    next::Union{Nothing, Turn}
end
Turn() = Turn(ReentrantLock(), nothing)

function last_of(turn::Turn)
    last = turn
    while true
        next = last.next
        next === nothing && break
        last = next
    end
    last === turn || (turn.next = last) # devices may come and go for long
    return last
end

# f(), in the turn of a device or heap. It may have become another one's while this task waited.
function in_turn(f, x)
    while true
        turn = last_of(turn_of(x))
        lock(turn.lock)
        try
            turn.next === nothing && return f()
        finally
            unlock(turn.lock)
        end
    end
end

# f(), in the turns of both, which are one after it. Nobody waits for one who has the other.
function joining(f, x, y)
    while true
        one, other = last_of(turn_of(x)), last_of(turn_of(y))
        lock(one.lock)
        try
            if trylock(other.lock)
                try
                    if one.next === nothing && other.next === nothing
                        f()
                        one === other || (other.next = one)
                        return nothing
                    end
                finally
                    unlock(other.lock)
                end
            end
        finally
            unlock(one.lock)
        end
        yield()
    end
end

"""
    Device(name = "auto"; seed = 0)
    Device(f, name; seed)

A GPU, "cuda:0" or "cuda" (the current one), or the simulated device, "sim"; "auto": the current
GPU, or the simulated device where there is none. A seed other than 0 has the simulated device run
its threads in another order. The second form closes it after `f(device)`. Heaps keep it open.
"""
mutable struct Device
    pointer::Ptr{Cvoid}
    turn::Turn

    function Device(name::AbstractString = "auto"; seed::Integer = 0)
        policy = seed != 0 # random; 0: round-robin
        sim = Ref(CSimOptions(sizeof(CSimOptions), word(seed, "the seed"), policy, 0, 0, 0, 0, 0, 0,
                              0, C_NULL, C_NULL, C_NULL, C_NULL))
        text = c_text(name)
        found = Ref{Ptr{Cvoid}}(C_NULL)
        must(device_open(found, text, sim), true)
        return finalizer(end_later, new(found[], Turn()))
    end
end

function Device(f::Function, name::AbstractString = "auto"; seed::Integer = 0)
    device = Device(name; seed = seed)
    try
        return f(device)
    finally
        close(device)
    end
end

# A finalizer may not wait for its turn: it tries again at the next collection.
function end_later(x)
    turn = last_of(turn_of(x))
    done = false
    if trylock(turn.lock)
        try
            if turn.next === nothing
                finish(x)
                done = true
            end
        finally
            unlock(turn.lock)
        end
    end
    done || finalizer(end_later, x)
    return nothing
end

# Forgets the pointer, and has the library end what it pointed to.
function finish(x)::Cint
    pointer, x.pointer = x.pointer, C_NULL
    return pointer == C_NULL ? Cint(0) : ended(x, pointer)
end
function ended(::Device, pointer)::Cint
    device_close(pointer)
    return 0
end

turn_of(device::Device) = getfield(device, :turn)
Base.isopen(device::Device) = device.pointer != C_NULL
function Base.close(device::Device)
    in_turn(() -> finish(device), device)
    return nothing
end

function opened(x)
    isopen(x) || bad_argument("the $(lowercase(string(nameof(typeof(x))))) is closed")
    return x.pointer
end

"`(name = \"NVIDIA H200\", is_simulated = false)`."
function Base.propertynames(::Device, private::Bool = false)
    return private ? (:name, :is_simulated, :pointer, :turn) : (:name, :is_simulated)
end
function Base.getproperty(device::Device, field::Symbol)
    field in (:name, :is_simulated) || return getfield(device, field)
    info = in_turn(() -> unsafe_load(device_get_info(opened(device))), device)
    field === :is_simulated && return info.target == 0
    return String(UInt8[c for c in Iterators.takewhile(!=(0x00), info.name)])
end

"""
    Heap(bytes; device = "auto", allocator = "tessera", reserve_bytes = 0, options...)
    Heap(f, bytes; ...)

A heap of so many bytes, metadata included, of a `Device` or one of that name. `reserve_bytes`: it
can be extended to so many bytes in place. Other options are the allocator's, by name:
`track_peak = 1`. The second form closes the heap after `f(heap)`; others end with `close`, or when
nobody has them any more.
"""
mutable struct Heap
    pointer::Ptr{Cvoid}
    device::Device

    function Heap(bytes::Integer; device::Union{Device, AbstractString} = "auto",
                  allocator::AbstractString = "tessera", reserve_bytes::Integer = 0, options...)
        of = device isa Device ? device : Device(device)
        name = c_text(allocator)
        own = Ref(CAnyOptions(C_NULL, 0, ntuple(_ -> UInt64(0), 16)))
        for (option, value) in options
            full = c_text("$allocator.$option")
            must(options_set(own, full, word(value, option)), true)
        end
        found = Ref{Ptr{Cvoid}}(C_NULL)
        GC.@preserve name own in_turn(of) do
            chosen = isempty(options) ? Ptr{CAnyOptions}(C_NULL) :
                     Base.unsafe_convert(Ptr{CAnyOptions}, own)
            all = CHeapOptions(sizeof(CHeapOptions), word(bytes, "bytes"),
                               Base.unsafe_convert(Cstring, name), opened(of), C_NULL, chosen,
                               word(reserve_bytes, "reserve_bytes"),
                               CMemorySource(C_NULL, C_NULL, C_NULL), C_NULL)
            must(heap_create(found, Ref(all)), true, opened(of))
        end
        return finalizer(end_later, new(found[], of))
    end
end

function Heap(f::Function, bytes::Integer; options...)
    heap = Heap(bytes; options...)
    try
        return f(heap)
    finally
        close(heap)
    end
end

ended(::Heap, pointer)::Cint = heap_destroy(pointer)
turn_of(heap::Heap) = heap.device.turn
Base.isopen(heap::Heap) = heap.pointer != C_NULL

"Ends the heap; an error of a kernel that used it is told here. Of a closed heap: nothing."
function Base.close(heap::Heap)
    in_turn(() -> must(finish(heap), false, heap.device.pointer), heap)
    return nothing
end

# A call of C on the heap, alone on its device.
function call(f, heap::Heap, told::Bool)
    in_turn(heap) do
        h = opened(heap)
        must(f(h), told, heap_device(h)) # which is open, also if `heap.device` was closed
    end
    return nothing
end

"""
    handle(heap)

The word of 64 bits that kernels get which call `wh_abi1_malloc` and its like (warpheap_abi.h).
"""
function handle(heap::Heap)
    found = Ref{Culonglong}(0)
    call(h -> heap_abi1_handle(h, found), heap, true)
    return UInt64(found[])
end

"""
    handle_struct(heap)

The bytes of a `wh_heap_ref`, for kernels in CUDA C++ that include warpheap.h, of this version, and
get it by value. Of a heap with peers: kernels that are compiled with `WH_PEERS` as 1, which nobody
checks here.
"""
function handle_struct(heap::Heap)
    bytes = UInt8[]
    call(heap, true) do h
        resize!(bytes, heap_handle_bytes(h))
        name = unsafe_load(heap_allocator(h)).name
        target = unsafe_load(device_get_info(heap_device(h))).target
        kind = CHandleKind(sizeof(CHandleKind), name, length(bytes), 0, version(), target, 1, 1)
        heap_copy_handle(h, Ref(kind), bytes)
    end
    return bytes
end

"""
    enable_peer!(heap, device)

Opens the heap to kernels of another device, beside those of its own. On GPUs all these kernels are
compiled with `WH_PEERS` as 1, and get `handle_struct`. The heap keeps the device open.
"""
function enable_peer!(heap::Heap, device::Device)
    joining(heap, device) do
        h = opened(heap)
        must(heap_enable_peer(h, opened(device)), true, heap_device(h))
    end
    return nothing
end

"How many devices these are."
peers(heap::Heap) = Int(in_turn(() -> heap_peers(opened(heap)), heap))

"Every block is gone."
reset!(heap::Heap) = call(heap_reset, heap, false)

"Verifies every invariant of a quiet heap."
check(heap::Heap) = call(h -> heap_check(h, C_NULL), heap, false)

"Maps at least so many bytes more, of a heap with `reserve_bytes`."
extend!(heap::Heap, bytes::Integer) =
    call(h -> heap_extend(h, word(bytes, "bytes")), heap, true)

"Gives memory in which no block lives back to the device; how many bytes."
function trim!(heap::Heap, keep_bytes::Integer = 0)
    given = Ref{UInt64}(0)
    call(h -> heap_trim(h, word(keep_bytes, "keep_bytes"), given), heap, true)
    return given[]
end

"The heap's addresses: `(base, bytes)`."
function memory(heap::Heap)
    base, bytes = Ref{Ptr{Cvoid}}(C_NULL), Ref{UInt64}(0)
    call(h -> heap_memory(h, base, bytes), heap, false)
    return (base = UInt64(base[]), bytes = bytes[])
end

const COUNTS = (:heap_bytes, :metadata_bytes, :used_bytes, :peak_bytes, :live_blocks, :largest_free,
                :failed, :bad_frees, :mallocs, :frees)

"""
    stats(heap)

Statistics of a quiet heap, as a `NamedTuple`. `nothing`: the allocator does not track it.
"""
function stats(heap::Heap)
    words = zeros(UInt64, div(sizeof(CStats), 8))
    words[1] = sizeof(CStats)
    call(h -> heap_get_stats(h, words), heap, false)
    s = reinterpret(CStats, words)[1]
    known(n) = n == UNKNOWN ? nothing : n
    classes = [(block_bytes = c.block_bytes, live = c.live, capacity = c.capacity)
               for c in s.classes[1:min(s.n_classes, length(s.classes))]]
    return merge(NamedTuple{COUNTS}(map(name -> known(getfield(s, name)), COUNTS)),
                 (classes = classes,))
end

# As many threads of the simulated device as there are calls make them at the same time.
function make!(heap::Heap, calls::Vector{CHeapCall})
    call(h -> heap_make_calls(h, calls, sizeof(CHeapCall), length(calls)), heap, true)
    return calls
end
one(heap, kind, block, bytes) =
    make!(heap, [CHeapCall(kind, 0, word(block, "the block"), bytes, 0)])[1]

block_of(c::CHeapCall) = c.block == 0 ? nothing : c.block

"""
    malloc(heap, bytes)
    malloc(heap, sizes)

On the simulated device: a block, or `nothing` where the heap is full. Of a vector of sizes: blocks
of these sizes, by as many threads at the same time. (Of a GPU: kernels do that.)
"""
malloc(heap::Heap, bytes::Integer) = block_of(one(heap, MALLOC, 0, word(bytes, "bytes")))
malloc(heap::Heap, sizes::AbstractVector{<:Integer}) =
    block_of.(make!(heap, [CHeapCall(MALLOC, 0, 0, word(n, "bytes"), 0) for n in sizes]))

"Gives a block back. A pointer that is no block is refused and counted (`bad_frees`)."
function free(heap::Heap, block::Integer)
    one(heap, FREE, block, 0)
    return nothing
end
free(::Heap, ::Nothing) = nothing

"Bytes that may be used in a block."
usable_size(heap::Heap, block::Integer) = one(heap, USABLE_SIZE, block, 0).bytes

# For heap_walk, which ends at a 1: whether the bytes of words, an address and a number, are in this
# live block; the third word says so.
function look_at(words::Ptr{UInt64}, block::Ptr{Cvoid}, usable::UInt64)::Cint
    address, bytes, first = unsafe_load(words, 1), unsafe_load(words, 2), UInt64(block)
    found = address >= first && bytes <= usable && address - first <= usable - bytes
    unsafe_store!(words, UInt64(found), 3)
    return found
end

# Refuses what is not in the heap. Of a heap with reserve_bytes some of its addresses have no
# memory: what is not in one live block there is refused, too.
function bounds(heap::Heap, address::UInt64, bytes::UInt64)
    base, size = memory(heap)
    inside = address >= base && bytes <= size && address - base <= size - bytes
    mapped, reserved, granule = Ref{UInt64}(0), Ref{UInt64}(0), Ref{UInt64}(0)
    call(h -> heap_extent(h, mapped, reserved, granule), heap, false)
    words = UInt64[address, bytes, granule[] == 0 || bytes == 0]
    if inside && words[3] == 0
        visit = @cfunction(look_at, Cint, (Ptr{UInt64}, Ptr{Cvoid}, UInt64))
        call(h -> heap_walk(h, visit, words), heap, false)
    end
    inside && words[3] != 0 && return nothing
    bad_argument("$bytes bytes from 0x$(string(address, base = 16)) on are not in the heap")
end

"A copy of so many bytes of a block."
function Base.read(heap::Heap, address::Integer, bytes::Integer)
    from, n = word(address, "the address"), word(bytes, "bytes")
    bounds(heap, from, n)
    to = Vector{UInt8}(undef, n)
    n == 0 || call(h -> device_copy_out(heap_device(h), to, Ptr{Cvoid}(from), n), heap, false)
    return to
end

"Copies bytes to an address in the heap."
function Base.write(heap::Heap, address::Integer, data::AbstractVector{UInt8})
    to, n = word(address, "the address"), UInt64(length(data))
    bounds(heap, to, n)
    from = Vector{UInt8}(data)
    n == 0 || call(h -> device_copy_in(heap_device(h), Ptr{Cvoid}(to), from, n), heap, false)
    return Int(n)
end

end
