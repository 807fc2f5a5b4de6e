//! Heaps on the simulated device: what works, and what bad input gets.
use warpheap::{Device, Heap};

const MIB: u64 = 1 << 20;

fn heap() -> Heap {
    Heap::builder(MIB)
        .device(&Device::open("sim").unwrap())
        .create()
        .unwrap()
}

fn refused<T>(result: warpheap::Result<T>, status: &str, text: &str) {
    match result {
        Ok(_) => panic!("not refused: {status} {text}"),
        Err(error) => {
            assert_eq!(error.status, status, "{error}");
            assert!(error.text.contains(text), "{error}");
        }
    }
}

#[test]
fn blocks() {
    let mut heap = heap();
    assert!(heap.device().is_simulated());
    let sizes: Vec<u64> = (1..500).collect();
    let blocks = heap.malloc_each(&sizes).unwrap();
    for (block, &size) in blocks.iter().zip(&sizes) {
        let block = block.unwrap();
        assert!(heap.usable_size(block).unwrap() >= size);
        heap.write(block, &vec![size as u8; size as usize]).unwrap();
    }
    for (block, &size) in blocks.iter().zip(&sizes) {
        let data = heap.read(block.unwrap(), size as usize).unwrap();
        assert!(data.iter().all(|&byte| byte == size as u8));
        heap.free(block.unwrap()).unwrap();
    }
    heap.check().unwrap();
    match heap.handle() {
        Ok(word) => assert_ne!(word, 0),
        Err(error) => assert_eq!(error.status, "WH_UNSUPPORTED"), // of a library without it
    }
    let stats = heap.stats().unwrap();
    assert_eq!((stats.heap_bytes, stats.live_blocks), (Some(MIB), Some(0)));
    assert_eq!(stats.peak_bytes, None);
    heap.close().unwrap();
}

#[test]
fn full_and_bad_pointers() {
    let mut heap = heap();
    assert_eq!(heap.malloc(2 * MIB).unwrap(), None);
    let block = heap.malloc(64).unwrap().unwrap();
    for wrong in [block + 16, 4096, u64::MAX - 15] {
        heap.free(wrong).unwrap();
    }
    heap.free(0).unwrap();
    let stats = heap.stats().unwrap();
    assert_eq!((stats.failed, stats.bad_frees), (Some(1), Some(3)));
    let (base, size) = heap.memory().unwrap();
    for (address, bytes) in [
        (base - 1, 1),
        (base + size, 1),
        (base, size as usize + 1),
        (16, 16),
    ] {
        refused(
            heap.read(address, bytes),
            "WH_BAD_ARGUMENT",
            "not in the heap",
        );
    }
    refused(
        heap.write(u64::MAX, &[1, 2]),
        "WH_BAD_ARGUMENT",
        "not in the heap",
    );
    heap.reset().unwrap();
    assert_eq!(heap.stats().unwrap().live_blocks, Some(0));
}

#[test]
fn bad_heaps() {
    let device = Device::open("sim").unwrap();
    let of = |bytes| Heap::builder(bytes).device(&device);
    refused(of(0).create(), "WH_BAD_ARGUMENT", "");
    refused(of(100).create(), "WH_HEAP_TOO_SMALL", "needs");
    refused(
        of(MIB).allocator("tesera").create(),
        "WH_UNKNOWN_ALLOCATOR",
        "tessera",
    );
    refused(
        of(MIB).allocator("a\0b").create(),
        "WH_BAD_ARGUMENT",
        "byte 0",
    );
    refused(
        of(MIB).option("tessera.no_such", 1).create(),
        "WH_BAD_ARGUMENT",
        "no_such",
    );
    refused(of(1 << 37).create(), "WH_OUT_OF_MEMORY", "");
    refused(Device::open("simm"), "WH_BAD_ARGUMENT", "");
    refused(of(MIB).create().unwrap().extend(1), "WH_UNSUPPORTED", "");
}

#[test]
fn reserved() {
    let device = Device::open("sim").unwrap();
    let mut heap = Heap::builder(MIB)
        .device(&device)
        .reserve_bytes(64 * MIB)
        .create()
        .unwrap();
    drop(device); // the heap keeps it
    assert_eq!(heap.malloc(4 * MIB).unwrap(), None);
    heap.extend(8 * MIB).unwrap();
    let block = heap.malloc(4 * MIB).unwrap().unwrap();
    heap.write(block, b"here").unwrap();
    let last = block + 4 * MIB - 16; // any part of a block, and nothing behind it
    heap.write(last, b"its last 16 byte").unwrap();
    assert_eq!(heap.read(last + 4, 4).unwrap(), b"last");
    refused(heap.read(last, 17), "WH_BAD_ARGUMENT", "not in the heap");
    for within in [16, 4096, 4 * MIB - 16] {
        let all = 4 * MIB as usize;
        refused(
            heap.read(block + within, all),
            "WH_BAD_ARGUMENT",
            "not in the heap",
        );
    }
    heap.free(block).unwrap();
    assert!(heap.trim(0).unwrap() > 0);
    refused(heap.read(block, 4), "WH_BAD_ARGUMENT", "not in the heap");
    refused(heap.extend(100 * MIB), "WH_RESERVE_FULL", "");
}

#[test]
fn threads() {
    let device = Device::open_seeded("sim", 3).unwrap();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let mut heap = Heap::builder(MIB).device(&device).create().unwrap();
            std::thread::spawn(move || {
                for _ in 0..20 {
                    let blocks = heap.malloc_each(&[24; 16]).unwrap();
                    blocks
                        .iter()
                        .for_each(|block| heap.free(block.unwrap()).unwrap());
                }
                heap.check().unwrap();
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

#[test]
fn peers() {
    let devices: Vec<Device> = (0..3)
        .map(|seed| Device::open_seeded("sim", seed).unwrap())
        .collect();
    let create = |d: &Device| Heap::builder(MIB).device(d).create().unwrap();
    let mut heap = create(&devices[0]);
    refused(
        heap.enable_peer(&devices[0]),
        "WH_BAD_ARGUMENT",
        "no peer of itself",
    );
    assert_eq!(heap.peers(), 0);
    for _ in 0..2 {
        heap.enable_peer(&devices[1]).unwrap(); // again is no error
        heap.enable_peer(&devices[2]).unwrap();
        assert_eq!(heap.peers(), 2);
    }
    assert!(heap.handle_struct().unwrap().len() > 100);
    let mut other = create(&devices[2]);
    other.enable_peer(&devices[0]).unwrap();
    drop(devices); // the heaps keep them
    for heap in [&mut heap, &mut other] {
        let block = heap.malloc(100).unwrap().unwrap();
        heap.write(block, b"there").unwrap();
        heap.check().unwrap();
        heap.free(block).unwrap();
    }
    heap.close().unwrap();
    other.close().unwrap();
    let fdg = Heap::builder(64 * MIB).allocator("fdgmalloc");
    if let Ok(mut heap) = fdg.device(&Device::open("sim").unwrap()).create() {
        let peer = Device::open("sim").unwrap();
        refused(heap.enable_peer(&peer), "WH_UNSUPPORTED", "one device");
    }
}

/// Peers run their kernels together, so calls of all of them take turns, also while they become
/// peers, and when a device goes.
#[test]
fn threads_of_peers() {
    for seed in 1..10 {
        let devices: Vec<Device> = (0..3)
            .map(|i| Device::open_seeded("sim", 3 * seed + i).unwrap())
            .collect();
        let threads: Vec<_> = (0..3)
            .map(|i| {
                let (own, next) = (devices[i].clone(), devices[(i + 1) % 3].clone());
                std::thread::spawn(move || {
                    let mut heap = Heap::builder(MIB).device(&own).create().unwrap();
                    for step in 0..60 {
                        if step == 20 {
                            heap.enable_peer(&next).unwrap();
                        }
                        let blocks = heap.malloc_each(&[24; 16]).unwrap();
                        assert_eq!(heap.stats().unwrap().live_blocks, Some(16));
                        blocks
                            .iter()
                            .for_each(|block| heap.free(block.unwrap()).unwrap());
                        if step % 10 == 0 {
                            let passing = Device::open("sim").unwrap();
                            let mut last = Heap::builder(MIB).device(&passing).create().unwrap();
                            last.enable_peer(&own).unwrap();
                        }
                    }
                    assert_eq!(heap.peers(), 1);
                })
            })
            .collect();
        drop(devices);
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    }
}

/// docs/RUST.md shows the example of lib.rs, which is a test.
#[test]
fn page() {
    let page = include_str!("../../docs/RUST.md");
    let shown = page
        .split("```rust\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let example: String = include_str!("../src/lib.rs")
        .lines()
        .skip_while(|line| *line != "//! ```")
        .skip(1)
        .take_while(|line| *line != "//! ```" && !line.starts_with("//! # "))
        .map(|line| format!("{}\n", &line[4..]))
        .collect();
    assert_eq!(shown, example);
}

#[test]
fn version() {
    let [major, minor, patch] = ["MAJOR", "MINOR", "PATCH"].map(|part| {
        let text = include_str!("../../include/warpheap/detail/version.h");
        let line = text
            .lines()
            .find(|line| line.contains(&format!("WH_VERSION_{part} ")))
            .unwrap();
        line.rsplit(' ').next().unwrap().parse::<u32>().unwrap()
    });
    assert_eq!(
        env!("CARGO_PKG_VERSION"),
        format!("{major}.{minor}.{patch}")
    );
    assert_eq!(
        warpheap::library_version(),
        major * 10000 + minor * 100 + patch
    );
}
