#include "contract.h"

#include "check.h"
#include "package_builder.h"

namespace {

using aot_test::json;

// The contract of a model with inputs x: [batch, 3 · heads + 1] and y: [batch, 4].
struct Fixture {
  Fixture()
      : bytes(make().build()),
        container(aot_rt::Container::read(bytes.bytes())),
        plan(aot_rt::Plan::parse(container)) {}

  static aot_test::Builder make() {
    aot_test::Builder b = aot_test::small_package();
    json& p = b.plan;
    p["dims"] =
        json::array({{{"name", "s0"},
                      {"label", "batch"},
                      {"min", 2},
                      {"max", 64},
                      {"multiple_of", 2},
                      {"source", {{"input", 0}, {"axis", 0}, {"divisor", 1}, {"offset", 0}}}},
                     {{"name", "s1"},
                      {"label", "heads"},
                      {"min", 1},
                      {"max", nullptr},
                      {"multiple_of", 1},
                      {"source", {{"input", 0}, {"axis", 1}, {"divisor", 3}, {"offset", 1}}}}});
    const json width = {"+", {"*", 3, "s1"}, 1};
    p["inputs"] = json::array(
        {{{"name", "x"}, {"dtype", "float32"}, {"shape", {"s0", width}}, {"strides", {width, 1}}},
         {{"name", "y"}, {"dtype", "int64"}, {"shape", {"s0", 4}}, {"strides", {4, 1}}}});
    b.program()["buffers"][1] = {{"name", "y"},
                                 {"dtype", "int64"},
                                 {"bytes", 0},
                                 {"storage", {{"kind", "input"}, {"index", 1}}}};
    return b;
  }

  std::vector<int64_t> bind(std::vector<int64_t> x, std::vector<int64_t> y) {
    DLTensor a = tensor(&x, {kDLFloat, 32, 1});
    DLTensor b = tensor(&y, {kDLInt, 64, 1});
    const DLTensor* inputs[] = {&a, &b};
    return aot_rt::bind_dims(plan, inputs, 2);
  }

  static DLTensor tensor(std::vector<int64_t>* shape, DLDataType dtype) {
    DLTensor result{};
    result.device = {kDLCPU, 0};
    result.ndim = static_cast<int32_t>(shape->size());
    result.shape = shape->data();
    result.dtype = dtype;
    return result;
  }

  aot_test::AlignedBytes bytes;
  aot_rt::Container container;
  aot_rt::Plan plan;
};

TEST(dims_are_solved) {
  Fixture f;
  const auto dims = f.bind({8, 13}, {8, 4});
  CHECK_EQ(dims[0], int64_t{8});
  CHECK_EQ(dims[1], int64_t{4});
}

TEST(messages_name_input_dimension_value_and_range) {
  Fixture f;
  CHECK_FAILS(
      f.bind({66, 13}, {66, 4}), AOT_SHAPE_MISMATCH,
      "input 'x' (number 0), dimension 0 ('batch'): size 66, allowed 2 to 64, multiples of 2");
  CHECK_FAILS(f.bind({0, 13}, {0, 4}), AOT_SHAPE_MISMATCH, "size 0, allowed 2 to 64");
  CHECK_FAILS(f.bind({3, 13}, {3, 4}), AOT_SHAPE_MISMATCH, "size 3, allowed 2 to 64, multiples");
  CHECK_FAILS(f.bind({8, 12}, {8, 4}), AOT_SHAPE_MISMATCH,
              "dimension 1 ('heads'): size 12, allowed 4 or more, 1 more than a multiple of 3");
  CHECK_FAILS(f.bind({8, 1}, {8, 4}), AOT_SHAPE_MISMATCH, "size 1, allowed 4 or more");
  CHECK_FAILS(f.bind({8, 13}, {6, 4}), AOT_SHAPE_MISMATCH,
              "input 'y' (number 1), dimension 0: size 6, must be 8 (batch, as dimension 0 of "
              "input 'x' (number 0))");
  CHECK_FAILS(f.bind({8, 13}, {8, 5}), AOT_SHAPE_MISMATCH, "dimension 1: size 5, must be 4");
  CHECK_FAILS(f.bind({8, 13, 1}, {8, 4}), AOT_SHAPE_MISMATCH,
              "has 3 dimensions, the model takes 2");
  CHECK_FAILS(f.bind({8, -1}, {8, 4}), AOT_SHAPE_MISMATCH, "size -1");
}

TEST(kinds) {
  Fixture f;
  std::vector<int64_t> shape = {8, 13};
  std::vector<int64_t> other = {8, 4};
  DLTensor x = Fixture::tensor(&shape, {kDLFloat, 32, 1});
  DLTensor y = Fixture::tensor(&other, {kDLInt, 64, 1});
  const DLTensor* inputs[] = {&x, &y};
  const auto bind = [&] { aot_rt::bind_dims(f.plan, inputs, 2); };
  bind();
  CHECK_FAILS(aot_rt::bind_dims(f.plan, inputs, 1), AOT_INVALID_ARGUMENT,
              "the model takes 2 inputs, got 1");
  CHECK_FAILS(aot_rt::bind_dims(f.plan, inputs, 3), AOT_INVALID_ARGUMENT, "got 3");
  y.dtype = {kDLInt, 32, 1};
  CHECK_FAILS(bind(), AOT_INVALID_ARGUMENT,
              "input 'y' (number 1) has dtype int32, the model takes int64");
  y.dtype = {kDLInt, 64, 4};
  CHECK_FAILS(bind(), AOT_INVALID_ARGUMENT, "has dtype int64x4");
  y.dtype = {77, 64, 1};
  CHECK_FAILS(bind(), AOT_INVALID_ARGUMENT, "has dtype code 77 of 64 bits");
  y.dtype = {kDLInt, 64, 1};
  y.device = {kDLCUDA, 0};
  CHECK_FAILS(bind(), AOT_INVALID_ARGUMENT,
              "is on cuda:0, this session runs on the CPU: copy it there");
  y.device = {kDLCUDAHost, 0};
  bind();
  y.shape = nullptr;
  CHECK_FAILS(bind(), AOT_INVALID_ARGUMENT, "has no shape");
  inputs[1] = nullptr;
  CHECK_FAILS(bind(), AOT_INVALID_ARGUMENT, "input 'y' (number 1) is null");
}

TEST(in_place_only_if_aligned_and_of_the_plans_layout) {
  const aot_rt::DType& dtype = *aot_rt::find_dtype("float32");
  aot_rt::BoundTensor bound;
  bound.sizes = {2, 1, 3};
  bound.strides = {3, 3, 1};
  bound.span = 24;
  bound.contiguous = true;
  alignas(8) char data[64] = {};
  std::vector<int64_t> shape = bound.sizes;
  std::vector<int64_t> strides = {3, 99, 1};  // the stride of a single element means nothing
  DLTensor tensor = Fixture::tensor(&shape, {kDLFloat, 32, 1});
  tensor.data = data;
  CHECK(aot_rt::readable_in_place(tensor, bound, dtype));
  tensor.strides = strides.data();
  CHECK(aot_rt::readable_in_place(tensor, bound, dtype));
  tensor.byte_offset = 2;
  CHECK(!aot_rt::readable_in_place(tensor, bound, dtype));
  tensor.byte_offset = 4;
  CHECK(aot_rt::readable_in_place(tensor, bound, dtype));
  strides[0] = 4;
  CHECK(!aot_rt::readable_in_place(tensor, bound, dtype));
  tensor.strides = nullptr;
  bound.contiguous = false;
  CHECK(!aot_rt::readable_in_place(tensor, bound, dtype));
  bound.span = 0;
  CHECK(aot_rt::readable_in_place(tensor, bound, dtype));
}

}  // namespace

TEST_MAIN
