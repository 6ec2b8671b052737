// What programs usually call, so that the templates in headers are compiled with the warnings of warnings.sh.
#include <tessera/tessera.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// Both at once, as many programs have it.
using namespace std;
using namespace tessera;

namespace {

struct BlockOptions {
  int64_t width = 8;
  double dropout = 0.1;
};

struct Block : nn::Layer<Block, BlockOptions> {
  using Layer::Layer;
  nn::LayerNorm& norm = add<nn::LayerNorm>("norm", o.width);
  nn::Linear& up = add<nn::Linear>("up", {.in = o.width, .out = 4 * o.width});
  nn::Linear& down = add("down", nn::Linear(4 * o.width, o.width));
  nn::Dropout& dropout = add<nn::Dropout>("dropout", o.dropout);
  Variable& scale = parameter("scale", {o.width}, init::ones());
  Variable forward(const Variable& x) const { return x + dropout(down(nn::gelu(up(norm(x))))) * scale; }
};

struct Model : nn::Layer<Model> {
  nn::Embedding& tokens = add<nn::Embedding>("tokens", {.count = 16, .width = 8});
  nn::ModuleList<Block>& blocks = add<nn::ModuleList<Block>>("blocks");
  nn::Sequential& head = add("head", nn::Sequential{nn::Linear(8, 8), nn::ReLU(), nn::Linear(8, 16)});
  explicit Model(int layers) {
    for (int i = 0; i < layers; ++i) blocks.push({.width = 8});
  }
  Variable forward(const Tensor& ids) { return head(blocks(tokens(ids))); }
};

struct Cube : autograd::Function<Cube> {
  static Variable forward(AutogradContext* context, const Variable& x) {
    context->save_for_backward({x});
    return x * x * x;
  }
  static vector<Variable> backward(AutogradContext* context, vector<Variable> dy) {
    const Variable x = context->get_saved_variables()[0];
    return {dy[0] * x * x * 3};
  }
};

struct Squares : data::Dataset {
  int64_t size() const override { return 64; }
  data::Example get(int64_t i) const override { return {Tensor::from({1.0f, 2.0f}), Tensor::scalar(i % 2)}; }
};

void use_tensors() {
  const Tensor x = randn({4, 6}), y = Tensor::from(vector<float>{1, 2, 3}),
               ids = tensor({int64_t{0}, int64_t{2}});
  auto [rows, columns] = x.dims<2>();
  auto [left, right] = chunk<2>(x, -1);
  Tensor z = zeros({rows, columns});
  z[0] = y.sum();
  z[1][2] = 0.5;
  z.index_put_({Slice(1, 3), ids}, 2.0);
  z += x * 2 - 1;
  cout << z.index({Slice(), None, ids}).sum(-1) << (x > 0) << cat({left, right}, 1).max(1).values << '\n';
  const float* const values = z.data<float>();
  printf("%s %f %ld\n", to_string(z.shape()).c_str(), values[0] + z.select(0, 0).mean().item(),
         long{z.numel()});
}

void use_gradients() {
  const Variable w = Variable::leaf(randn({3}));
  const Variable y = Cube::apply(w).sum() + exp(w).mean();
  y.backward({.retain_graph = true});
  const HookHandle handle = w.register_hook([](const Variable& gradient) { return gradient * 2; });
  const vector<Variable> gradients = grad(y, {w});
  {
    const NoGrad off;
    w.sub_(gradients[0] * 0.1);
  }
  const auto slope = autograd::functional::grad([](const Variable& x) { return x.square().sum(); });
  cout << slope(w) << '\n';
}

void train() {
  Model model(2);
  nn::materialize(model, cpu(), 1);
  optim::AdamW adam(model.parameters(), {.lr = 1e-3, .weight_decay = 0.1});
  optim::Schedule schedule = optim::cosine({.lr = 1e-3, .min_lr = 1e-4, .warmup_steps = 2, .steps = 10});
  model.register_forward_hook(
      [](nn::Module& module, const nn::CallVariables&, const nn::CallVariables& outputs) {
        cout << module.full_name() << outputs[0].shape() << '\n';
      });
  auto batches = make_shared<data::DatasetBatches>(make_shared<Squares>(),
                                                   data::DatasetBatches::Options{.batch_size = 8});
  data::Loader loader(batches, {.first_step = 0, .last_step = 4});
  for (const data::Batch& batch : loader) {
    schedule.apply(adam);
    const Variable loss = nn::cross_entropy(model(batch.y), batch.y);
    loss.backward();
    optim::clip_grad_norm(model.parameters(), 1.0);
    adam.step();
    adam.zero_grad();
    schedule.advance();
  }
  for (auto& [name, variable] : model.named_parameters()) cout << name << variable.shape() << '\n';
  nn::save(model, "model.safetensors");
}

}  // namespace

int main() {
  use_tensors();
  use_gradients();
  train();
  return dist::launch(
      [](dist::World& world) { world.communicator().all_reduce(zeros({2}), dist::Reduction::sum).wait(); },
      {.virtual_ranks = 2});
}
