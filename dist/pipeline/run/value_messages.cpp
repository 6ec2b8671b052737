#include "dist/pipeline/run/value_messages.h"

#include <algorithm>

#include "tensor/error.h"

namespace tessera::dist {
namespace {

/// A header: the number of values; for each its dtype, whether it requires a gradient, whether it is there,
/// its number of dimensions, and these.
constexpr int64_t header_words = 256;

CallOptions options_of(const MessagePlace& place) {
  return {.unit = place.unit, .traffic = Traffic::activations};
}

Tensor header_of(const nn::LayerValues& values, const MessagePlace& place) {
  std::vector<int64_t> words{std::ssize(values)};
  for (const Variable& value : values) {
    words.push_back(value.defined() ? static_cast<int64_t>(value.dtype()) : 0);
    words.push_back(value.defined() && value.requires_grad());
    words.push_back(value.defined());
    words.push_back(value.defined() ? value.ndim() : 0);
    if (!value.defined()) continue;
    const Shape& shape = value.shape();
    words.insert(words.end(), shape.begin(), shape.end());
  }
  require<ValueError>(std::ssize(words) <= header_words, "pipeline, message of ", place.unit,
                      ": expected values described by at most ", header_words, " numbers, got ",
                      values.size(), " values with ", words.size());
  words.resize(header_words);
  return Tensor::from(std::span<const int64_t>(words), {header_words});
}

}  // namespace

OutgoingValues::OutgoingValues(Communicator& ranks, MessagePlace place, const nn::LayerValues& values)
    : header_(header_of(values, place)) {
  calls_.push_back(
      ranks.send(header_, place.peer, place.tag, {.unit = place.unit, .traffic = Traffic::control}));
  for (const Variable& value : values) {
    if (!value.defined() || value.numel() == 0) continue;
    values_.push_back(value.value().contiguous());
    calls_.push_back(ranks.send(values_.back(), place.peer, place.tag, options_of(place)));
  }
}

bool OutgoingValues::is_done() const {
  return std::all_of(calls_.begin(), calls_.end(), [](const Work& call) { return call.is_done(); });
}

void OutgoingValues::wait() {
  for (Work& call : calls_) call.wait();
}

IncomingValues::IncomingValues(Communicator& ranks, MessagePlace place)
    : ranks_(ranks), place_(std::move(place)), header_(Tensor::empty({header_words}, i64)) {
  header_call_ =
      ranks_.recv(header_, place_.peer, place_.tag, {.unit = place_.unit, .traffic = Traffic::control});
}

bool IncomingValues::advance() {
  if (!has_header_ && header_call_.is_done()) post_values();
  return has_header_;
}

void IncomingValues::wait_for_header() {
  if (!has_header_) post_values();
}

void IncomingValues::post_values() {
  header_call_.wait();
  has_header_ = true;
  const int64_t* word = header_.data<int64_t>();
  const int64_t count = *word++;
  for (int64_t i = 0; i < count; ++i) {
    const auto dtype = static_cast<DType>(*word++);
    requires_grad_.push_back(*word++ != 0);
    const bool is_there = *word++ != 0;
    const int64_t ndim = *word++;
    const Shape shape(std::span<const int64_t>(word, static_cast<size_t>(ndim)));
    word += ndim;
    if (!is_there) {
      values_.emplace_back();
      continue;
    }
    values_.push_back(Tensor::empty(shape, dtype, ranks_.device()));
    if (values_.back().numel() > 0)
      calls_.push_back(ranks_.recv(values_.back(), place_.peer, place_.tag, options_of(place_)));
  }
}

nn::LayerValues IncomingValues::take(bool with_gradients) {
  wait_for_header();
  for (Work& call : calls_) call.wait();
  nn::LayerValues taken;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (!values_[i].defined())
      taken.emplace_back();
    else
      taken.push_back(Variable(values_[i], with_gradients && requires_grad_[i]));
  }
  values_.clear();
  return taken;
}

}  // namespace tessera::dist
