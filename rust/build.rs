//! Where libwarpheap.so is: WARPHEAP_LIB_DIR names its folder; else pkg-config knows.
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=WARPHEAP_LIB_DIR");
    let folder = std::env::var("WARPHEAP_LIB_DIR").ok().or_else(|| {
        let said = Command::new("pkg-config")
            .args(["--variable=libdir", "warpheap"])
            .output()
            .ok()?;
        let text = String::from_utf8(said.stdout).ok()?.trim().to_string();
        (said.status.success() && !text.is_empty()).then_some(text)
    });
    match folder {
        Some(folder) => {
            println!("cargo:rustc-link-search=native={folder}");
            println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
        }
        None => println!(
            "cargo:warning=warpheap: where is libwarpheap.so? Set WARPHEAP_LIB_DIR, or have \
             pkg-config know warpheap"
        ),
    }
    println!("cargo:rustc-link-lib=dylib=warpheap");
}
