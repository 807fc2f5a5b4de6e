//! Heaps on a GPU, without kernels, which examples/kernel.rs has. Where there is none, each test
//! prints so and ends.
use warpheap::{Device, Heap};

const MIB: u64 = 1 << 20;

fn gpu() -> Option<Device> {
    match Device::open("cuda") {
        Err(error) if error.status == "WH_NO_DEVICE" => {
            println!("skipped: {error}");
            None
        }
        device => Some(device.unwrap()),
    }
}

fn status<T>(result: warpheap::Result<T>) -> String {
    result.err().map_or("WH_OK".into(), |error| error.status)
}

#[test]
fn heap() {
    let Some(device) = gpu() else { return };
    println!("{}", device.name());
    assert!(!device.is_simulated());
    let mut heap = Heap::builder(64 * MIB)
        .device(&device)
        .option("tessera.track_peak", 1)
        .create()
        .unwrap();
    let (base, size) = heap.memory().unwrap();
    heap.write(base + size - 64, &[7; 64]).unwrap();
    assert_eq!(heap.read(base + size - 64, 64).unwrap(), [7; 64]);
    assert_eq!(status(heap.read(base + size, 1)), "WH_BAD_ARGUMENT");
    assert_eq!(status(heap.malloc(16)), "WH_UNSUPPORTED"); // kernels do that
    let stats = heap.stats().unwrap();
    let found = (stats.heap_bytes, stats.live_blocks, stats.peak_bytes);
    assert_eq!(found, (Some(64 * MIB), Some(0), Some(0)));
    heap.reset().unwrap();
    heap.check().unwrap();
    heap.close().unwrap();
}

#[test]
fn handles() {
    let Some(device) = gpu() else { return };
    let create = || Heap::builder(16 * MIB).device(&device).create().unwrap();
    let (mut one, mut other) = (create(), create());
    let Ok(old) = one.handle() else { return }; // a library without it
    assert_ne!(old, other.handle().unwrap());
    drop(one);
    assert_ne!(old, create().handle().unwrap()); // a kernel with the old one uses no other heap
}

#[test]
fn reserved() {
    let Some(device) = gpu() else { return };
    let mut heap = Heap::builder(64 * MIB)
        .device(&device)
        .reserve_bytes(1024 * MIB)
        .create()
        .unwrap();
    heap.extend(128 * MIB).unwrap();
    assert!(heap.memory().unwrap().1 >= 192 * MIB);
    assert!(heap.trim(64 * MIB).unwrap() >= 64 * MIB);
    assert_eq!(status(heap.extend(2048 * MIB)), "WH_RESERVE_FULL");
    heap.check().unwrap();
}
