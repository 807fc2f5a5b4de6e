//! The structures of ffi.rs are those of the C headers, as a C compiler says them.
use std::mem::{offset_of, size_of};
use std::process::Command;
use warpheap::ffi::*;

macro_rules! layout {
    ($($t:ident { $($f:ident),* })*) => {
        vec![$(
            (format!("sizeof({})", stringify!($t)), size_of::<$t>()),
            $((format!("offsetof({}, {})", stringify!($t), stringify!($f)), offset_of!($t, $f)),)*
        )*]
    };
}

#[test]
fn structures() {
    let expected = layout! {
        wh_memory_source { alloc, free, user }
        wh_heap_options { struct_bytes, bytes, allocator, device, memory, options, reserve_bytes,
                          source, cuda_pool }
        wh_any_options { values }
        wh_sim_options { struct_bytes, seed, policy, policy_arg, n_sms, blocks_per_sm, workers,
                         step_budget, memory_bytes, weak, record, replay, switches, schedules }
        wh_device_info { target, name, driver, n_sms, ordinal, memory_bytes, shared_bytes,
                         blocks_per_sm }
        wh_class_stats { block_bytes, live, capacity }
        wh_stats { struct_bytes, heap_bytes, metadata_bytes, used_bytes, peak_bytes, live_blocks,
                   largest_free, failed, bad_frees, mallocs, frees, n_classes, timed_out, classes }
        wh_heap_call { kind, block, bytes, align }
        wh_handle_kind { struct_bytes, allocator, handle_bytes, layout, version, target, checks,
                         peers }
        wh_allocator_info { name, title, source, caps, max_align, max_size, family }
    };
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../include");
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (folder.join("layout.c"), folder.join("layout"));
    let prints: String = expected
        .iter()
        .map(|(what, _)| format!("printf(\"%zu\\n\", {what});\n"))
        .collect();
    let text = format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include <warpheap/heap_calls.h>\n\
         #include <warpheap/options.h>\nint main(void) {{\n{prints}return 0;\n}}\n"
    );
    std::fs::write(&source, text).unwrap();
    // -O1: the inline functions of the headers, which nothing calls, are left out.
    let compiler = std::env::var("CC").unwrap_or("cc".into());
    let args = ["-std=gnu11", "-O1", "-I", include, "-o"];
    let status = Command::new(compiler)
        .args(args)
        .arg(&program)
        .arg(&source)
        .status();
    assert!(status.expect("a C compiler").success());
    let said = String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap();
    let said: Vec<usize> = said.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(said.len(), expected.len());
    for ((what, size), there) in expected.iter().zip(said) {
        assert_eq!(*size, there, "{what}");
    }
}
