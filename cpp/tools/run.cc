// Runs a package:
//   aot_run PACKAGE [--device cuda:0] [--threads N] [--isa LEVEL] [--repeat N] [--out DIR]
//   [--weights FILE] input.npy…
// Without inputs it describes the package.
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "npy.h"

namespace {

struct Arguments {
  std::string package;
  std::string out;
  aot::PackageOptions package_options;
  aot::SessionOptions session;
  int repeat = 1;
  std::vector<std::string> inputs;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--", 0) != 0) {
      if (arguments.package.empty()) {
        arguments.package = word;
      } else {
        arguments.inputs.push_back(word);
      }
      continue;
    }
    if (i + 1 == argc) throw std::runtime_error(word + " needs a value");
    const std::string value = argv[++i];
    if (word == "--device") {
      arguments.session.device = value;
    } else if (word == "--repeat") {
      arguments.repeat = std::stoi(value);
    } else if (word == "--threads") {
      arguments.session.num_threads = std::stoi(value);
    } else if (word == "--isa") {
      arguments.session.isa = value;
    } else if (word == "--out") {
      arguments.out = value;
    } else if (word == "--weights") {
      arguments.package_options.weights = value;
    } else {
      throw std::runtime_error("unknown option " + word);
    }
  }
  if (arguments.package.empty()) {
    throw std::runtime_error(
        "usage: aot_run PACKAGE [--device cuda:0] [--threads N] [--isa LEVEL] [--repeat N] "
        "[--out DIR] [--weights FILE] input.npy…");
  }
  return arguments;
}

void describe(const char* kind, const aot_tensor_info& info) {
  std::cout << kind << " " << info.name << ": " << info.dtype_name << "[";
  for (int32_t i = 0; i < info.ndim; ++i) {
    const aot_dim_info& dim = info.dims[i];
    std::cout << (i == 0 ? "" : ", ") << dim.label;
    if (dim.size >= 0) continue;
    std::cout << "=" << dim.min << "..";
    if (dim.max >= 0) std::cout << dim.max;
  }
  std::cout << "]\n";
}

int run(const Arguments& arguments) {
  const aot::Package package =
      aot::Package::open(arguments.package, arguments.package_options).value();
  if (arguments.inputs.empty() && package.input_count() != 0) {
    for (size_t i = 0; i < package.input_count(); ++i) describe("input ", package.input(i));
    for (size_t i = 0; i < package.output_count(); ++i) describe("output", package.output(i));
    return 0;
  }
  aot::Session session = aot::Session::create(package, arguments.session).value();
  std::vector<aot_tools::Array> arrays;
  for (const std::string& path : arguments.inputs) arrays.push_back(aot_tools::read_npy(path));
  std::vector<aot::Tensor> inputs;
  for (const aot_tools::Array& array : arrays) inputs.push_back(array.tensor());
  // Files are read and written by the host.
  const aot::RunOptions on_host{nullptr, true};
  std::vector<aot::Tensor> outputs;
  for (int i = 0; i < arguments.repeat; ++i) outputs = session.run(inputs, on_host).value();
  if (!arguments.out.empty()) std::filesystem::create_directories(arguments.out);
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::cout << package.output(i).name << ": " << package.output(i).dtype_name << "[";
    for (int32_t axis = 0; axis < outputs[i].rank(); ++axis) {
      std::cout << (axis == 0 ? "" : ", ") << outputs[i].size(axis);
    }
    std::cout << "]\n";
    if (!arguments.out.empty()) {
      aot_tools::write_npy(arguments.out + "/out" + std::to_string(i) + ".npy", outputs[i]);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const aot::Error& error) {
    std::cerr << "error " << error.code_name() << ": " << error.what() << "\n";
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
  }
  return 1;
}
