//! Runs packages: `tests/bindings/test_rust.py` makes them, and says where they are in
//! `AOT_TEST_PACKAGES`.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use aot_runtime::{
    Cancellation, Code, DType, Package, PackageOptions, RunOptions, Session, SessionOptions,
    Tensor, Verify, View,
};

/// relu(x * w), of any number of rows up to 64.
const WEIGHT: [f32; 4] = [1.0, -2.0, 0.5, 3.0];

fn package(name: &str) -> Package {
    let folder = std::env::var_os("AOT_TEST_PACKAGES")
        .expect("AOT_TEST_PACKAGES: run these tests by `pytest tests/bindings/test_rust.py`");
    Package::open(PathBuf::from(folder).join(name)).unwrap()
}

fn rows(count: usize) -> Vec<f32> {
    (0..4 * count).map(|i| i as f32 - 6.0).collect()
}

fn expected(x: &[f32]) -> Vec<f32> {
    x.iter().enumerate().map(|(i, v)| (v * WEIGHT[i % 4]).max(0.0)).collect()
}

fn relu(session: &Session, x: &[f32]) -> Vec<f32> {
    let outputs = session.run(&mut [View::new(x, &[x.len() / 4, 4]).unwrap()]).unwrap();
    assert_eq!(outputs[0].shape(), [x.len() / 4, 4]);
    outputs[0].data::<f32>().unwrap().to_vec()
}

#[test]
fn a_run_gives_what_the_model_gives() {
    let session = package("relu.pkg").session().unwrap(); // the package may go first
    for count in [1, 3, 64] {
        assert_eq!(relu(&session, &rows(count)), expected(&rows(count)));
    }
    assert!(session.isa().starts_with("x86-64-v"));
    assert!(session.num_threads() >= 1);
}

#[test]
fn a_package_tells_its_contract() {
    let package = package("relu.pkg");
    let inputs = package.inputs();
    assert_eq!(inputs.len(), 1);
    assert_eq!((inputs[0].dtype_name.as_str(), inputs[0].dtype.size()), ("float32", 4));
    assert_eq!(inputs[0].dims[0].size, None);
    assert_eq!((inputs[0].dims[0].max, inputs[0].dims[1].size), (Some(64), Some(4)));
    assert_eq!(package.find_input(&inputs[0].name).unwrap(), 0);
    let error = package.find_input("no such name").unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
    assert!(error.message().contains(&inputs[0].name), "{error}");
    assert_eq!((package.outputs().len(), package.states().len()), (1, 0));
}

#[test]
fn threads_share_a_package_and_a_session() {
    let package = package("relu.pkg");
    let shared = package.session().unwrap();
    thread::scope(|scope| {
        for number in 0..4 {
            let (package, shared) = (&package, &shared);
            scope.spawn(move || {
                let own = package.session().unwrap();
                for turn in 0..50 {
                    let x = rows(1 + (number + turn) % 5);
                    assert_eq!(relu(&own, &x), expected(&x));
                    assert_eq!(relu(shared, &x), expected(&x));
                }
            });
        }
    });
}

#[test]
fn an_output_outlives_its_session_and_changes_threads() {
    let x = rows(2);
    let tensor: Tensor = {
        let session = package("relu.pkg").session().unwrap();
        session.run(&mut [View::new(&x, &[2, 4]).unwrap()]).unwrap().remove(0)
    };
    let values = thread::spawn(move || tensor.to_vec::<f32>().unwrap()).join().unwrap();
    assert_eq!(values, expected(&x));
}

#[test]
fn outputs_go_into_memory_of_the_caller() {
    let session = package("relu.pkg").session().unwrap();
    let (x, mut y) = (rows(3), vec![f32::NAN; 12]);
    let mut inputs = [View::new(&x, &[3, 4]).unwrap()];
    let mut places = [View::new_mut(&mut y, &[3, 4]).unwrap()];
    session.run_into(&mut inputs, &mut places, &RunOptions::default()).unwrap();
    assert_eq!(y, expected(&x));

    let read_only = session.run_into(
        &mut [View::new(&x, &[3, 4]).unwrap()],
        &mut [View::new(&x, &[3, 4]).unwrap()],
        &RunOptions::default(),
    );
    assert_eq!(read_only.unwrap_err().code(), Code::InvalidArgument);
}

#[test]
fn what_does_not_fit_is_refused_with_the_library_s_message() {
    let session = package("relu.pkg").session().unwrap();
    let x = rows(2);
    let wrong_size = session.run(&mut [View::new(&x, &[4, 2]).unwrap()]).unwrap_err();
    assert_eq!(wrong_size.code(), Code::ShapeMismatch);
    assert!(wrong_size.to_string().contains('4'), "{wrong_size}");

    let wrong_type: Vec<i64> = vec![0; 8];
    let error = session.run(&mut [View::new(&wrong_type, &[2, 4]).unwrap()]).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("int64"), "{error}");

    assert_eq!(session.run(&mut []).unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(View::new(&x, &[3, 4]).err().unwrap().code(), Code::ShapeMismatch);
    let missing = Package::open("no/such.pkg").unwrap_err();
    assert_eq!(missing.code(), Code::NotFound);
    assert!(missing.message().contains("no/such.pkg"), "{missing}");
    let device = SessionOptions { device: Some("tpu".into()), ..Default::default() };
    assert!(package("relu.pkg").session_with(&device).is_err());
}

#[test]
fn a_run_ends_when_it_is_told_to() {
    let session = package("relu.pkg").session().unwrap();
    let x = rows(2);
    let cancellation = Cancellation::new().unwrap();
    let options = RunOptions { cancellation: Some(&cancellation), ..Default::default() };
    cancellation.clone().cancel();
    let ended = session.run_with(&mut [View::new(&x, &[2, 4]).unwrap()], &options);
    assert_eq!(ended.unwrap_err().code(), Code::Cancelled);
    cancellation.reset();
    assert!(session.run_with(&mut [View::new(&x, &[2, 4]).unwrap()], &options).is_ok());

    let soon = RunOptions { timeout: Some(Duration::from_nanos(1)), ..Default::default() };
    let late = session.run_with(&mut [View::new(&x, &[2, 4]).unwrap()], &soon);
    assert_eq!(late.unwrap_err().code(), Code::DeadlineExceeded);
}

#[test]
fn states_and_changed_inputs_are_of_the_session() {
    let package = package("counting.pkg");
    let session = package.session().unwrap();
    let count = package.find_state(&package.states()[0].name).unwrap();
    let x = [1.0_f32, -2.0];
    let mut sum = [10.0_f32, 20.0];
    for _ in 0..2 {
        let mut inputs = [View::new(&x, &[2]).unwrap(), View::new_mut(&mut sum, &[2]).unwrap()];
        let outputs = session.run(&mut inputs).unwrap();
        assert_eq!(outputs[1].data::<bool>().unwrap(), [true, false]);
        assert!(outputs[1].data::<u8>().is_err());
    }
    assert_eq!(sum, [12.0, 16.0]);
    assert_eq!(session.state::<i64>(count).unwrap(), [2]);
    assert!(session.state::<f32>(count).is_err());

    let clone = session.try_clone().unwrap();
    session.set_state(count, &[7_i64]).unwrap();
    assert_eq!(session.state::<i64>(count).unwrap(), [7]);
    assert_eq!(clone.state::<i64>(count).unwrap(), [2]);
    session.reset().unwrap();
    assert_eq!(session.state::<i64>(count).unwrap(), [0]);

    let shared = [0.0_f32; 2];
    let mut inputs = [View::new(&x, &[2]).unwrap(), View::new(&shared, &[2]).unwrap()];
    let refused = session.run(&mut inputs).unwrap_err();
    assert!(refused.message().contains("new_mut"), "{refused}");
}

#[test]
fn a_policy_refuses_what_nobody_signed() {
    let folder = PathBuf::from(std::env::var_os("AOT_TEST_PACKAGES").unwrap());
    let options = PackageOptions { keys: vec!["11".repeat(32)], ..Default::default() };
    let refused = Package::open_with(folder.join("relu.pkg"), &options).unwrap_err();
    assert!(matches!(refused.code(), Code::Refused), "{refused}");
    let full = PackageOptions { verify: Verify::Full, ..Default::default() };
    assert!(Package::open_with(folder.join("relu.pkg"), &full).is_ok());
}

#[test]
fn bytes_stand_for_types_that_rust_does_not_have() {
    let bytes = [0_u8; 6];
    assert!(View::from_bytes(&bytes, DType::F16, &[3]).is_ok());
    assert!(View::from_bytes(&bytes, DType { code: 2, bits: 32 }, &[1]).is_err());
    let mut booleans = [false; 2];
    assert!(View::new_mut(&mut booleans, &[2]).is_err());
}
