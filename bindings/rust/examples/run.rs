//! Loads a package and runs it once.
//!   aot-package examples/01_mlp/model.py -o mlp.pkg && cargo run --example run mlp.pkg

use aot_runtime::{Package, Result, View};

fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "mlp.pkg".into());
    let package = Package::open(path)?;
    let session = package.session()?;

    let x = vec![0.5_f32; 8 * 64];
    let outputs = session.run(&mut [View::new(&x, &[8, 64])?])?;

    for value in &outputs[0].data::<f32>()?[..outputs[0].shape()[1]] {
        print!("{value:.4} ");
    }
    println!();
    Ok(())
}
