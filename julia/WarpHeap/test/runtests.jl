# Heaps on the simulated device: what works, and what bad input gets.
using Test, WarpHeap

const MIB = 1 << 20
const ROOT = normpath(joinpath(@__DIR__, "..", "..", ".."))

function refused(f, status, text)
    error = try
        f()
        nothing
    catch e
        e
    end
    @test error isa WarpHeapError
    if error isa WarpHeapError
        @test (error.status, occursin(text, error.text)) == (status, true)
        @test startswith(sprint(showerror, error), status)
    end
end

@testset "the page's example" begin
    page = read(joinpath(ROOT, "docs", "JULIA.md"), String)
    shown = match(r"^```julia\n(.*?)^```$"ms, page)[1]
    @test include_string(Module(), shown) === nothing
end

@testset "blocks" begin
    Heap(MIB; device = "sim") do heap
        @test heap.device.is_simulated && heap.device.name == "simulated device"
        sizes = collect(1:500)
        blocks = malloc(heap, sizes)
        for (block, n) in zip(blocks, sizes)
            @test usable_size(heap, block) >= n
            write(heap, block, fill(n % UInt8, n))
        end
        @test stats(heap).live_blocks == 500
        @test all(read(heap, b, n) == fill(n % UInt8, n) for (b, n) in zip(blocks, sizes))
        foreach(block -> free(heap, block), blocks)
        check(heap)
        s = stats(heap)
        @test s isa NamedTuple && (s.heap_bytes, s.live_blocks, s.peak_bytes) == (MIB, 0, nothing)
        @test any(c -> c.block_bytes == 16, s.classes)
        @test handle(heap) != 0
    end
    @test Heap(heap -> malloc(heap, 1) isa UInt64, MIB; device = "sim")
end

@testset "full, and bad pointers" begin
    heap = Heap(MIB; device = "sim", track_peak = 1)
    @test malloc(heap, 2MIB) === nothing
    block = malloc(heap, 64)
    foreach(wrong -> free(heap, wrong), (block + 16, 4096, typemax(UInt64) - 15))
    free(heap, 0)
    free(heap, nothing)
    s = stats(heap)
    @test (s.failed, s.bad_frees, s.peak_bytes) == (1, 3, 64)
    base, size = memory(heap)
    for (address, bytes) in ((base - 1, 1), (base + size, 1), (base, size + 1), (16, 16))
        refused(() -> read(heap, address, bytes), "WH_BAD_ARGUMENT", "not in the heap")
    end
    refused(() -> write(heap, typemax(UInt64), [0x01, 0x02]), "WH_BAD_ARGUMENT", "not in the heap")
    refused(() -> malloc(heap, -1), "WH_BAD_ARGUMENT", "from 0 to")
    reset!(heap)
    @test stats(heap).live_blocks == 0
    close(heap)
    close(heap)
    @test !isopen(heap)
    for use in (stats, check, reset!, memory, handle, h -> malloc(h, 1), h -> free(h, block),
                h -> read(h, block, 1), h -> extend!(h, 1), trim!, handle_struct, peers,
                h -> enable_peer!(h, Device("sim")))
        refused(() -> use(heap), "WH_BAD_ARGUMENT", "the heap is closed")
    end
end

@testset "bad heaps" begin
    device = Device("sim"; seed = 3)
    refused(() -> Heap(0; device = device), "WH_BAD_ARGUMENT", "")
    refused(() -> Heap(-1; device = device), "WH_BAD_ARGUMENT", "from 0 to")
    refused(() -> Heap(100; device = device), "WH_HEAP_TOO_SMALL", "needs")
    refused(() -> Heap(MIB; device = device, allocator = "tesera"), "WH_UNKNOWN_ALLOCATOR",
            "tessera")
    refused(() -> Heap(MIB; device = device, allocator = "a\0b"), "WH_BAD_ARGUMENT", "byte 0")
    refused(() -> Heap(MIB; device = device, no_such = 1), "WH_BAD_ARGUMENT", "no_such")
    refused(() -> Heap(1 << 37; device = device), "WH_OUT_OF_MEMORY", "")
    refused(() -> Device("simm"), "WH_BAD_ARGUMENT", "")
    refused(() -> extend!(Heap(MIB; device = device), 1), "WH_UNSUPPORTED", "")
    close(device)
    refused(() -> device.name, "WH_BAD_ARGUMENT", "the device is closed")
    refused(() -> Heap(MIB; device = device), "WH_BAD_ARGUMENT", "the device is closed")
    @test Device(d -> isopen(d), "sim")
end

@testset "a heap that grows, and outlives its device" begin
    device = Device("sim")
    heap = Heap(MIB; device = device, reserve_bytes = 64MIB)
    close(device)
    @test malloc(heap, 4MIB) === nothing
    extend!(heap, 8MIB)
    block = malloc(heap, 4MIB)
    @test write(heap, block, b"here") == 4 && read(heap, block, 4) == b"here"
    last = block + 4MIB - 16 # any part of a block, and nothing behind it
    @test write(heap, last, b"its last 16 byte") == 16 && read(heap, last + 4, 4) == b"last"
    refused(() -> read(heap, last, 17), "WH_BAD_ARGUMENT", "not in the heap")
    refused(() -> read(heap, block + 16, 4MIB), "WH_BAD_ARGUMENT", "not in the heap")
    free(heap, block)
    @test trim!(heap) > 0
    refused(() -> read(heap, block, 1), "WH_BAD_ARGUMENT", "not in the heap")
    refused(() -> extend!(heap, 100MIB), "WH_RESERVE_FULL", "")
    close(heap)
end

@testset "peers" begin
    devices = [Device("sim"; seed = seed) for seed in 0:2]
    heap = Heap(MIB; device = devices[1])
    refused(() -> enable_peer!(heap, devices[1]), "WH_BAD_ARGUMENT", "no peer of itself")
    @test peers(heap) == 0
    for _ in 1:2 # again is no error
        foreach(device -> enable_peer!(heap, device), devices[2:3])
        @test peers(heap) == 2
    end
    @test length(handle_struct(heap)) > 100
    other = Heap(MIB; device = devices[3])
    enable_peer!(other, devices[1])
    foreach(close, devices) # the heaps keep them
    refused(() -> enable_peer!(other, devices[2]), "WH_BAD_ARGUMENT", "the device is closed")
    for h in (heap, other)
        free(h, malloc(h, 100))
        check(h)
        close(h)
    end
    device = Device("sim") # devices that nobody has leave it
    foreach(_ -> enable_peer!(Heap(MIB; device = Device("sim")), device), 1:20)
    GC.gc()
    @test malloc(Heap(MIB; device = device), 8) isa UInt64
end

@testset "heaps that nobody has any more" begin
    device = Device("sim")
    make() = (foreach(_ -> malloc(Heap(MIB; device = device), 8), 1:50); nothing)
    for _ in 1:5
        make()
        GC.gc()
    end
    @test malloc(Heap(MIB; device = device), 8) isa UInt64
end

@testset "versions" begin
    text = read(joinpath(ROOT, "include", "warpheap", "detail", "version.h"), String)
    parts = [parse(Int, match(Regex("WH_VERSION_$part (\\d+)"), text)[1])
             for part in ("MAJOR", "MINOR", "PATCH")]
    @test library_version() == VersionNumber(parts...)
    project = read(joinpath(@__DIR__, "..", "Project.toml"), String)
    @test match(r"^version = \"(.*)\"$"m, project)[1] == join(parts, ".")
end
