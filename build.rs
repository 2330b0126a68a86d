//! Tells the compiler which PHP it builds for; nothing to do without the `php` feature.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(php_zts)");
    #[cfg(feature = "php")]
    php()?;
    Ok(())
}

#[cfg(feature = "php")]
fn php() -> Result<(), Box<dyn std::error::Error>> {
    use ext_php_rs_build::{PHPInfo, find_php};

    println!("cargo::rerun-if-env-changed=PHP");
    println!("cargo::rerun-if-env-changed=PHP_CONFIG");
    let info = PHPInfo::get(&find_php()?)?;
    if info.thread_safety()? {
        println!("cargo::rustc-cfg=php_zts");
    }
    // A module with a thread of its own must stay mapped after dlclose.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    Ok(())
}
