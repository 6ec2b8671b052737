#include "models/lstm_lm.h"

#include "autograd/functions/view.h"

namespace tessera::models {

std::string LstmLm::describe_options() const {
  return text(o.layers, " layers, ", o.width, " wide, vocabulary ", o.vocabulary);
}

nn::LstmOutput LstmLm::features(const Tensor& ids, const nn::LstmState& state) const {
  require<ShapeError>(ids.ndim() == 2, "LstmLm '", full_name(), "': expected ids (B, T), got ",
                      describe(ids));
  const Variable x = drop(embedding(ids.transpose(0, 1).contiguous()));  // (T, B, C)
  nn::LstmOutput result = lstm(x, state);
  result.output = drop(result.output);
  return result;
}

Variable LstmLm::forward(const Tensor& ids) const {
  return transpose(head(features(ids, {}).output), 0, 1);
}

std::pair<Variable, nn::LstmState> LstmLm::forward_from(const Tensor& ids, const nn::LstmState& state) const {
  return call(nn::rerunnable([this, ids](const nn::LstmState& before) {
                const nn::LstmOutput result = features(ids, before);
                return std::pair(transpose(head(result.output), 0, 1), result.state);
              }),
              state);
}

Variable LstmLm::loss(const Tensor& ids, const Tensor& targets) const {
  const Tensor by_step = targets.transpose(0, 1).contiguous();
  return call(
      nn::rerunnable([this, ids, by_step] { return head.cross_entropy(features(ids, {}).output, by_step); }));
}

int64_t parameter_count(const LstmLmOptions& o) {
  return 2 * o.vocabulary * o.width + o.vocabulary + o.layers * 8 * (o.width * o.width + o.width);
}

int64_t flops_per_token(const LstmLmOptions& o) {
  return 6 * (8 * o.layers * o.width * o.width + o.vocabulary * o.width);
}

}  // namespace tessera::models
