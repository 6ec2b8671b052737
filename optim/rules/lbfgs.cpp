#include "optim/rules/lbfgs.h"

#include <algorithm>
#include <cmath>

#include "optim/parameter_list_checks.h"
#include "optim/rules/strong_wolfe.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/reduction.h"
#include "tensor/ops/shaping.h"

namespace tessera::optim {
namespace {

using Options = LBFGSOptions;

void check_options(const std::string& optimizer, const Options& o) {
  require_at_least(optimizer, "max_iter", o.max_iter, 1);
  require_at_least(optimizer, "max_eval", o.max_eval, 0);
  require_not_negative(optimizer, "tolerance_grad", o.tolerance_grad);
  require_not_negative(optimizer, "tolerance_change", o.tolerance_change);
  require_at_least(optimizer, "history_size", o.history_size, 1);
}

double inner_product(const Tensor& a, const Tensor& b) {
  return ops::sum(ops::mul(a, b)).item();
}

double largest(const Tensor& x) {
  return x.numel() == 0 ? 0.0 : ops::max(ops::abs(x)).item();
}

/// x += factor y.
void add_multiple(const Tensor& x, const Tensor& y, double factor) {
  ops::add_(x, ops::mul(y, factor));
}

}  // namespace

LBFGS::LBFGS(const ParameterList& parameters, const Options& options)
    : Optimizer("LBFGS"),
      options_(options),
      table_{{{.name = "max_iter", .count = &Options::max_iter},
              {.name = "max_eval", .count = &Options::max_eval},
              {.name = "tolerance_grad", .value = &Options::tolerance_grad},
              {.name = "tolerance_change", .value = &Options::tolerance_change},
              {.name = "maximize", .flag = &Options::maximize}},
             &check_options} {
  table_.require_in_range(name(), options);
  require_full(parameters, name(), "its step combines all parameters");
  require<ConfigError>(!parameters.reducer(), name(),
                       ": these parameters are trained on several ranks, and its line search and its "
                       "tolerances compare the losses of one rank: use a first-order optimizer (AdamW)");
  add_group(parameters, options.lr);
  require_parameters();
  const DType dtype = parameters[0].values().dtype();
  for (const NamedParameter& parameter : parameters)
    require<DTypeError>(parameter.values().dtype() == dtype, name(), ": expected one dtype, got ", dtype,
                        " and, for parameter '", parameter.name, "', ", parameter.values().dtype());
}

void LBFGS::update(std::span<const ops::UpdateItem>, const Tensor&) {
  throw ConfigError(name() +
                    ": a step needs a closure that computes the loss and its gradients and returns the loss: "
                    "lbfgs.step([&] { lbfgs.zero_grad(); ...; loss.backward(); return loss; })");
}

void LBFGS::load_options(int group, std::span<const NamedOption> saved, bool apply) {
  const Options loaded = table_.loaded(name(), group, options_, saved);
  if (apply) options_ = loaded;
}

void LBFGS::make_memory() {
  if (direction_.defined()) return;
  CategoryScope category(MemoryCategory::optimizer_state);
  const int64_t n = parameters().numel(), pairs = options_.history_size;
  const Tensor& like = parameters()[0].values();
  const auto zeros = [&](const Shape& shape, DType dtype) {
    return Tensor::zeros(shape, dtype, like.device());
  };
  direction_ = zeros({n}, like.dtype());
  gradient_ = zeros({n}, like.dtype());
  gradient_changes_ = zeros({pairs, n}, like.dtype());
  changes_ = zeros({pairs, n}, like.dtype());
  // What the host decides by stays there.
  const Device host = like.is_meta() ? meta() : cpu();
  inverse_products_ = Tensor::zeros({pairs}, f64, host);
  for (Tensor* scalar : {&inverse_curvature_, &t_, &loss_}) *scalar = Tensor::zeros({}, f64, host);
  for (Tensor* count : {&n_iter_, &evaluations_, &pairs_}) *count = Tensor::zeros({}, i64, host);
  if (!like.is_meta()) *inverse_curvature_.data<double>() = 1.0;
}

std::vector<NamedTensor> LBFGS::common_state() {
  make_memory();
  return {{"d", direction_},
          {"prev_flat_grad", gradient_},
          {"old_dirs", gradient_changes_},
          {"old_stps", changes_},
          {"ro", inverse_products_},
          {"H_diag", inverse_curvature_},
          {"t", t_},
          {"prev_loss", loss_},
          {"n_iter", n_iter_},
          {"func_evals", evaluations_},
          {"history", pairs_}};
}

int64_t LBFGS::max_evaluations() const {
  return options_.max_eval > 0 ? options_.max_eval : options_.max_iter * 5 / 4;
}

LBFGS::Point LBFGS::evaluate(FunctionRef<double()> closure) const {
  const double loss = closure();
  std::vector<Tensor> gradients;
  for (const NamedParameter& parameter : parameters()) {
    const Tensor& values = parameter.values();
    const Variable gradient = parameter.variable.grad();
    require<ShapeError>(!gradient.defined() || gradient.shape() == values.shape(), name(), ": parameter '",
                        parameter.name, "': expected a gradient of shape ", values.shape(), ", got ",
                        gradient.defined() ? gradient.shape() : Shape());
    gradients.push_back(gradient.defined()
                            ? ops::cast(gradient.value(), values.dtype()).flatten()
                            : Tensor::zeros({values.numel()}, values.dtype(), values.device()));
  }
  const Tensor flat = ops::cat(gradients, 0);
  return options_.maximize ? Point{-loss, ops::neg(flat)} : Point{loss, flat};
}

/// Adds t times the direction to the parameters.
void LBFGS::move(double t) const {
  int64_t offset = 0;
  for (const NamedParameter& parameter : parameters()) {
    const Tensor& values = parameter.values();
    const int64_t n = values.numel();
    add_multiple(values, direction_.narrow(0, offset, n).view(values.shape()), t);
    if (parameter.master.defined()) ops::cast_out(values, parameter.variable.value());
    offset += n;
  }
}

/// Keeps the last step and the change of the gradient that it made, where the function curves upwards.
void LBFGS::remember(const Tensor& gradient) {
  const Tensor y = ops::sub(gradient, gradient_), s = ops::mul(direction_, t());
  const double product = inner_product(y, s);
  if (!(product > 1e-10)) return;
  const int64_t row = (*pairs_.data<int64_t>())++ % options_.history_size;
  gradient_changes_.select(0, row).copy_from(y);
  changes_.select(0, row).copy_from(s);
  inverse_products_.data<double>()[row] = 1.0 / product;
  *inverse_curvature_.data<double>() = product / inner_product(y, y);
}

/// The quasi-Newton direction from the pairs kept, by two loops over them (Nocedal 1980).
void LBFGS::set_direction(const Tensor& gradient) {
  const Tensor q = ops::neg(gradient);
  const int64_t end = *pairs_.data<int64_t>(), begin = std::max<int64_t>(0, end - options_.history_size);
  const auto row = [&](const Tensor& x, int64_t pair) { return x.select(0, pair % options_.history_size); };
  const double* const inverse = inverse_products_.data<double>();
  std::vector<double> factors(static_cast<size_t>(end - begin));
  for (int64_t pair = end - 1; pair >= begin; --pair) {
    double& factor = factors[static_cast<size_t>(pair - begin)];
    factor = inner_product(row(changes_, pair), q) * inverse[pair % options_.history_size];
    add_multiple(q, row(gradient_changes_, pair), -factor);
  }
  ops::mul_(q, *inverse_curvature_.data<double>());
  for (int64_t pair = begin; pair < end; ++pair) {
    const double factor =
        inner_product(row(gradient_changes_, pair), q) * inverse[pair % options_.history_size];
    add_multiple(q, row(changes_, pair), factors[static_cast<size_t>(pair - begin)] - factor);
  }
  direction_.copy_from(q);
}

/// The end of a line search along the direction, at which the parameters are left.
LBFGS::Point LBFGS::search(FunctionRef<double()> closure, const Point& from, double slope,
                           int64_t& evaluations) {
  std::vector<Tensor> start;
  for (const NamedParameter& parameter : parameters()) start.push_back(parameter.values().clone());
  const auto at = [&](double length) -> LinePoint {
    move(length);
    const Point point = evaluate(closure);
    for (size_t i = 0; i < start.size(); ++i) parameters()[i].values().copy_from(start[i]);
    return {length, point.loss, inner_product(point.gradient, direction_), point.gradient};
  };
  const WolfeOptions options{.least_change = options_.tolerance_change,
                             .direction_size = largest(direction_),
                             .max_evaluations = max_evaluations() - evaluations};
  const LinePoint found = strong_wolfe(at, {0.0, from.loss, slope, from.gradient}, t(), options, evaluations);
  t() = found.t;
  move(found.t);
  return {found.loss, found.gradient};
}

bool LBFGS::iterate(FunctionRef<double()> closure, Point& now, bool is_last, int64_t& evaluations) {
  if (++n_iter() > 1) remember(now.gradient);
  set_direction(now.gradient);
  gradient_.copy_from(now.gradient);
  const double before = *loss_.data<double>() = now.loss;
  const double lr = this->lr().item();
  t() = n_iter() == 1 ? std::min(1.0, 1.0 / ops::sum(ops::abs(now.gradient)).item()) * lr : lr;
  const double slope = inner_product(now.gradient, direction_);
  if (slope > -options_.tolerance_change) return false;
  if (options_.line_search_fn == LineSearch::strong_wolfe) {
    now = search(closure, now, slope, evaluations);
  } else {
    move(t());
    if (is_last) return false;
    now = evaluate(closure);
    ++evaluations;
  }
  return !is_last && evaluations < max_evaluations() && largest(now.gradient) > options_.tolerance_grad &&
         largest(ops::mul(direction_, t())) > options_.tolerance_change &&
         !(std::abs(now.loss - before) < options_.tolerance_change);
}

double LBFGS::minimize(FunctionRef<double()> closure) {
  require_current(parameters(), name());
  make_memory();
  Point now = evaluate(closure);
  const double first_loss = options_.maximize ? -now.loss : now.loss;
  int64_t evaluations = 1;
  if (!(largest(now.gradient) <= options_.tolerance_grad))
    for (int64_t k = 1; iterate(closure, now, k == options_.max_iter, evaluations);) ++k;
  *evaluations_.data<int64_t>() += evaluations;
  return first_loss;
}

}  // namespace tessera::optim
