//! What `wasm-bindgen --target web` does. Usage: bindgen MODULE.wasm FOLDER

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(module), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("usage: bindgen MODULE.wasm FOLDER".into());
    };
    let mut bindgen = wasm_bindgen_cli_support::Bindgen::new();
    bindgen.input_path(module).web(true)?.typescript(false);
    bindgen.remove_name_section(true).remove_producers_section(true);
    Ok(bindgen.generate(folder)?)
}
