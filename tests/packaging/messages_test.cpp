// The messages of usual mistakes: where, what was expected, what was given, and often what to write.
#include <tessera/tessera.h>

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;

namespace {

struct Net : nn::Layer<Net> {
  nn::Linear& a = add<nn::Linear>("a", {.in = 2, .out = 8});
  nn::Linear& b = add<nn::Linear>("b", {.in = 8, .out = 3});
  Variable forward(const Variable& x) { return b(nn::relu(a(x))); }
};

struct WiderNet : nn::Layer<WiderNet> {
  nn::Linear& a = add<nn::Linear>("a", {.in = 2, .out = 16});
  nn::Linear& b = add<nn::Linear>("b", {.in = 16, .out = 3});
};

/// A layer that is no child: it was not made by `add`.
struct ForgottenAdd : nn::Layer<ForgottenAdd> {
  nn::Linear a{2, 8};
};

struct TwoNames : nn::Layer<TwoNames> {
  nn::Linear& a = add<nn::Linear>("a", {.in = 2, .out = 16});
  nn::Linear& b = add<nn::Linear>("a", {.in = 16, .out = 3});
};

struct Growing : data::Dataset {
  int64_t size() const override { return 2; }
  data::Example get(int64_t i) const override { return {zeros({i + 1}), Tensor::scalar(i)}; }
};

/// A model with values, an input and labels of it.
struct Fixture {
  Net net;
  Tensor x = randn({4, 2}), labels = Tensor::from<int64_t>({0, 1, 2, 1});
  Fixture() { nn::materialize(net, cpu(), 1); }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "messages: shapes") {
  CHECK(message_of<ShapeError>([&] {
          net(randn({4, 3}));
        }) == "nn::Linear 'a': input has 3 features, the weight (8, 2) takes 2; x is (4, 3) f32 on cpu");
  CHECK(message_of<ShapeError>([] {
          matmul(randn({2, 3}), randn({4, 5}));
        }) ==
        "matmul: the first operand has 3 columns, the second 4 rows; got (2, 3) f32 on cpu and (4, 5) f32 on "
        "cpu");
  CHECK(message_of<ShapeError>([] {
          randn({2, 3}) + randn({4});
        }) == "add: shapes (2, 3) and (4,) do not broadcast: dimension -1 is 3 and 4");
  CHECK(message_of<ShapeError>([] {
          randn({2, 3}).view({4, 2});
        }) == "view: (2, 3) has 6 elements, (4, 2) takes 8");
  CHECK(message_of<ShapeError>([] {
          randn({2, 3}).t().view({6});
        }) == "view: (3, 2) with strides (1, 3) cannot be viewed as (6,) without a copy; use reshape");
  CHECK(message_of<ShapeError>([] {
          cat({randn({2, 3}), randn({2, 4})});
        }) ==
        "cat: along dimension 0, (2, 4) f32 on cpu does not follow (2, 3) f32 on cpu: the other dimensions "
        "must be "
        "equal");
  CHECK(message_of<ShapeError>([&] { x.item(); }) ==
        "item: expected one element, got (4, 2) f32 on cpu; select one (x[0].item()) or reduce it "
        "(x.sum().item())");
  CHECK(message_of<ShapeError>([&] { x.dims<3>(); }) ==
        "dims: expected 3 dimensions, one per name, got the shape (4, 2)");
  CHECK(message_of<ShapeError>([] {
          Tensor::from({1.0f, 2.0f}, {3});
        }) == "Tensor::from: shape (3,) takes 3 values, got 2");
}

TEST_CASE_FIXTURE(Fixture, "messages: indices, dtypes and devices") {
  CHECK(message_of<IndexError>([&] { x[4]; }) == "select: index 4 is outside dimension 0 of (4, 2)");
  CHECK(message_of<IndexError>([&] { x.sum(2); }) ==
        "sum: dimension 2 is outside [-2, 1] of a tensor of 2 dimensions");
  CHECK(message_of<DTypeError>([] { arange(3) * 0.5; }) ==
        "mul: the number 0.5 is floating and the tensor is i64; cast the tensor to f32 first");
  CHECK(message_of<DTypeError>([&] { x.data<double>(); }) ==
        "data: expected dtype f64, got (4, 2) f32 on cpu; convert it first: x.to(f64)");
  CHECK(message_of<DTypeError>([&] { Variable::leaf(labels); }) ==
        "a Variable that requires a gradient needs a floating dtype, got (4,) i64 on cpu; convert it first: "
        "x.to(f32)");
  if (!cuda_is_built())
    CHECK(message_of<NotBuiltError>([&] { x.to(cuda(0)); }) ==
          "device cuda:0: this build has no CUDA backend; use cpu, or configure with the cuda preset");
  else
    CHECK(message_of<DeviceError>([&] { x.to(cuda(99)); }).starts_with("cuda:99: "));
  CHECK(message_of<DeviceError>([&] {
          Net fresh;
          fresh(x);
        }) ==
        "linear: operands with values and operands on meta, without values: (4, 2) f32 on cpu, (8, 2) f32 on "
        "meta; materialize the model first (nn::materialize), or give it inputs on meta (a member module is "
        "part of a model only where add(name, module) made it)");
  CHECK(
      message_of<DeviceError>([] { empty({2}, f32, meta()).sum().item(); }) ==
      "item: expected a tensor with values, got () f32 on meta, without values: materialize the model first "
      "(nn::materialize)");
}

TEST_CASE_FIXTURE(Fixture, "messages: layers and losses") {
  nn::Embedding words(2, 4);
  nn::materialize(words, cpu(), 1);
  CHECK(message_of<DTypeError>([&] { words(x); }) ==
        "embedding: expected an index of i64 or i32, got (4, 2) f32 on cpu; convert it first: x.to(i64)");
  CHECK(message_of<IndexError>([&] { words(labels); }) ==
        "nn::Embedding '': embedding: index 2 at position (2,) is outside [0, 2)");
  CHECK(message_of<IndexError>([&] {
          nn::cross_entropy(net(x), Tensor::from<int64_t>({0, 1, 2, 3}));
        }) ==
        "cross_entropy: target 3 at position (3,) is not a class: they go from 0 to 2, and -100 is ignored");
  CHECK(message_of<DTypeError>([&] { nn::cross_entropy(net(x), zeros({4})); }) ==
        "cross_entropy: expected targets of class ids, i64 or i32, got (4,) f32 on cpu; convert ids first: "
        "targets.to(i64)");
  CHECK(message_of<ShapeError>([&] {
          nn::cross_entropy(net(x), labels.view({4, 1}));
        }) ==
        "cross_entropy: expected targets (4,) for logits (4, 3), got (4, 1): one class id for each row of "
        "logits");
  CHECK(message_of<ShapeError>([&] { nn::mse_loss(net(x), zeros({4})); }) ==
        "mse_loss: expected a target of x's shape (4, 3), got (4,)");
  CHECK(message_of<ConfigError>([] { nn::Dropout dropout(1.5); }) ==
        "nn::Dropout: expected a probability in [0, 1), got 1.5");
  CHECK(message_of<ConfigError>([] { nn::CausalSelfAttention attention({.width = 10, .heads = 3}); }) ==
        "nn::CausalSelfAttention: 3 heads do not divide the width 10");
  CHECK(message_of<ConfigError>([] { TwoNames model; }) ==
        "TwoNames: the name 'a' is taken: parameters, buffers and children have distinct names");
  CHECK(message_of<ValueError>([&] { net.get_submodule("c"); }) == "at: no module 'c' in Net: it has a, b");
  CHECK(message_of<ValueError>([&] { net.get_parameter("a.wieght"); }) ==
        "get_parameter: no parameter 'wieght' in Linear 'a': it has weight, bias");
}

TEST_CASE_FIXTURE(Fixture, "messages: backward") {
  CHECK(message_of<AutogradError>([&] {
          const Variable loss = nn::cross_entropy(net(x), labels);
          loss.backward();
          loss.backward();
        }) ==
        "backward through 'cross_entropy' a second time: the first one freed its saved values; pass "
        "{.retain_graph "
        "= true} to the first to run a graph twice");
  CHECK(message_of<AutogradError>([&] { net(x).backward(); }) ==
        "backward: a gradient is implied only for a scalar, got (4, 3) f32 on cpu; pass a gradient of that "
        "shape, or "
        "reduce it (sum, mean) first");
  CHECK(message_of<AutogradError>([&] { Variable(x).sum().backward(); }) ==
        "backward: () f32 on cpu depends on nothing that requires a gradient (a constant, or computed under "
        "NoGrad); "
        "compute it from parameters or from Variable::leaf(tensor)");
  CHECK(message_of<AutogradError>([&] { net.a.weight.add_(1.0); }) ==
        "add_: 'a.weight' (8, 2) f32 on cpu is a leaf that requires a gradient and cannot be changed in "
        "place while "
        "operations are recorded; write a new Variable (x = x + y instead of x += y), or use NoGrad, or "
        "init:: for a "
        "parameter's initial values");
  CHECK(message_of<AutogradError>([] {
          const Variable w = Variable::leaf(randn({3})), h = w * 2, loss = (h * h).sum();
          {
            const NoGrad off;
            h.add_(1.0);
          }
          loss.backward();
        }) ==
        "backward of 'mul': the (3,) f32 on cpu that it saved was changed in place since (version 1, saved "
        "at 0); "
        "change a clone() of it, or change it after backward");
  CHECK(
      message_of<ValueError>([] { Net().a.weight.grad().value(); }) ==
      "an undefined Variable was used where one with a value is needed; grad() is undefined before the first "
      "backward and after zero_grad()");
}

TEST_CASE_FIXTURE(Fixture, "messages: optimizers") {
  CHECK(message_of<ValueError>([] {
          ForgottenAdd model;
          optim::Adam adam(model.parameters());
        }) ==
        "Adam: expected at least one parameter, got an empty list; a module has the parameters that it makes "
        "by "
        "parameter(name, ...) and those of the layers that it makes by add(name, ...)");
  CHECK(message_of<ConfigError>([&] { optim::Adam adam(net.parameters(), {.lr = -1}); }) ==
        "Adam: expected a learning rate of at least 0, got -1");
  CHECK(message_of<ConfigError>([&] {
          optim::Adam adam(net.parameters(), {.betas = {0.9, 1.0}});
        }) == "Adam: expected betas[1] in [0, 1), got 1");
  CHECK(message_of<ConfigError>([] { optim::cosine({.lr = 1e-3, .warmup_steps = 20, .steps = 10}); }) ==
        "cosine: expected steps to be at least warmup_steps (20), got 10");
}

TEST_CASE("messages: data") {
  CHECK(message_of<DataError>([] { data::open_corpus({.dataset = "text", .data = "no/such.txt"}); }) ==
        "text file no/such.txt: does not exist");
  CHECK(message_of<ConfigError>([] { data::open_corpus({.dataset = "mnist"}); }) ==
        "dataset 'mnist': expected tiny-shakespeare, builtin, text or tokens");
  CHECK(message_of<ConfigError>([] { data::open_corpus({.dataset = "text"}); }) ==
        "dataset 'text' needs `--data FILE`; in C++, CorpusOptions::data");
  CHECK(message_of<DataError>([] {
          data::DatasetBatches batches(std::make_shared<Growing>(), {.batch_size = 3});
        }) == "sampler: 2 examples give no batch of 3; use a smaller batch_size, or drop_last = false");
  CHECK(message_of<ShapeError>([] {
          data::DatasetBatches batches(std::make_shared<Growing>(), {.batch_size = 2, .shuffle = false});
          batches.batch(0);
        }) ==
        "collate: expected 'x' of one shape in all examples of a batch, got (1,) and (2,); pad it "
        "(collate_fields, pad_field), or give a `collate`");
}

TEST_CASE_FIXTURE(Fixture, "messages: checkpoints") {
  const TemporaryFolder folder;
  const std::string file = folder / "net.safetensors", missing = folder / "none.safetensors",
                    other = folder.write("text.safetensors", "hello");
  nn::save(net, file);
  CHECK(message_of<CheckpointError>([&] { nn::load(net, missing); }) ==
        missing + ": cannot open: No such file or directory");
  CHECK(message_of<CheckpointError>([&] { nn::load(net, other); }) ==
        other + ": not a safetensors file: expected at least 8 bytes, got 5");
  WiderNet wider;
  nn::materialize(wider, cpu(), 1);
  CHECK(message_of<ShapeError>([&] { nn::load(wider, file); }) ==
        "load_state_dict of WiderNet: 3 entries do not fit\n"
        "  'a.weight' expects (16, 2), got (8, 2)\n"
        "  'a.bias' expects (16,), got (8,)\n"
        "  'b.weight' expects (3, 16), got (3, 8)");
  nn::Linear another(2, 3);
  nn::materialize(another, cpu(), 1);
  CHECK(message_of<ValueError>([&] { nn::load(another, file); }) ==
        "load_state_dict of Linear: 6 entries do not fit\n"
        "  'weight' (3, 2) is missing\n"
        "  'bias' (3,) is missing\n"
        "  unexpected 'a.weight': there is no such parameter or buffer\n"
        "  unexpected 'a.bias': there is no such parameter or buffer\n"
        "  unexpected 'b.weight': there is no such parameter or buffer\n"
        "  unexpected 'b.bias': there is no such parameter or buffer");
}

TEST_CASE("messages: ranks") {
  CHECK(message_of<ConfigError>([] { dist::launch([](dist::World&) {}, {.virtual_ranks = 0}); }) ==
        "virtual_ranks: expected at least 1, got 0");
  CHECK(message_of<ShapeError>([] {
          dist::launch(
              [](dist::World& world) { world.communicator().all_gather(zeros({4}), zeros({4})).wait(); },
              {.virtual_ranks = 2});
        }) == "all_gather: expected an output of 2 times the input (4,) f32 on cpu, got (4,) f32 on cpu");
}
