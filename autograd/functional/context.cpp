#include "autograd/functional/context.h"

#include "autograd/gradients.h"
#include "autograd/graph/saved.h"

namespace tessera {

void SavedData::throw_other_type(bool has_value) {
  if (!has_value) throw ValueError("saved_data: a value is read that the forward did not set");
  throw ValueError("saved_data: a value is read as another type than the forward set");
}

SavedData& SavedDataList::operator[](std::string_view name) {
  for (auto& [key, value] : list_)
    if (key == name) return value;
  return list_.emplace_back(std::string(name), SavedData()).second;
}

void AutogradContext::save_for_backward(std::vector<Variable> values) {
  require<AutogradError>(!saved_, "save_for_backward: called in backward; save values in forward");
  for (Variable& value : values) to_save_.push_back(std::move(value));
}

std::vector<Variable> AutogradContext::get_saved_variables() const {
  if (!saved_) return to_save_;
  std::vector<Variable> values;
  for (size_t i = 0; i < saved_count_; ++i) values.push_back((*saved_)[i]);
  return values;
}

Variable AutogradContext::saved(size_t i) const {
  const size_t count = saved_ ? saved_count_ : to_save_.size();
  require<IndexError>(i < count, "saved: value ", i, " is read, and the forward saved ", count);
  return saved_ ? (*saved_)[i] : to_save_[i];
}

void AutogradContext::mark_non_differentiable(const std::vector<Variable>& outputs) {
  for (const Variable& output : outputs) non_differentiable_.push_back(output);
}

bool AutogradContext::needs_input_grad(size_t i) const {
  require<IndexError>(i < input_of_argument_.size(), "needs_input_grad: argument ", i, " of ",
                      input_of_argument_.size());
  const int input = input_of_argument_[i];
  if (input < 0) return false;
  return wanted_ ? (*wanted_)[static_cast<size_t>(input)] : requires_grad_[static_cast<size_t>(input)];
}

}  // namespace tessera
