#include "dist/pipeline/run/value_messages.h"

#include <algorithm>

#include "tensor/error.h"

namespace tessera::dist {
namespace {

/// A header: the state of random numbers, after its length; the number of values; for each its dtype, flags,
/// its number of dimensions, and these; where it holds the samples, if not along the first.
constexpr int64_t header_words = 256;
constexpr int64_t is_there = 1, requires_gradient = 2, has_layout = 4;

CallOptions options_of(const MessagePlace& place) {
  return {.unit = place.unit, .traffic = Traffic::activations};
}

Tensor header_of(const PassedValues& passed, const MessagePlace& place) {
  const nn::LayerValues& values = passed.values;
  std::vector<int64_t> words{std::ssize(passed.random)};
  words.insert(words.end(), passed.random.begin(), passed.random.end());
  words.push_back(std::ssize(values));
  for (const Variable& value : values) {
    if (!value.defined()) {
      words.insert(words.end(), {0, 0, 0});
      continue;
    }
    const SampleLayout& layout = value.impl()->current().samples;
    const bool is_default = layout == SampleLayout();
    words.insert(words.end(),
                 {static_cast<int64_t>(value.dtype()),
                  is_there | (value.requires_grad() ? requires_gradient : 0) | (is_default ? 0 : has_layout),
                  value.ndim()});
    words.insert(words.end(), value.shape().begin(), value.shape().end());
    if (!is_default)
      words.insert(words.end(), {static_cast<int64_t>(layout.kind), layout.dim, layout.outer, layout.inner});
  }
  require<ValueError>(std::ssize(words) <= header_words, "pipeline, message of ", place.unit,
                      ": expected values described by at most ", header_words, " numbers, got ",
                      values.size(), " values with ", words.size());
  words.resize(header_words);
  return Tensor::from(std::span<const int64_t>(words), {header_words});
}

}  // namespace

OutgoingValues::OutgoingValues(Communicator& ranks, MessagePlace place, const PassedValues& passed)
    : header_(header_of(passed, place)) {
  calls_.push_back(
      ranks.send(header_, place.peer, place.tag, {.unit = place.unit, .traffic = Traffic::control}));
  for (const Variable& value : passed.values) {
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
  const int64_t states = *word++;
  random_.assign(word, word + states);
  word += states;
  const int64_t count = *word++;
  for (int64_t i = 0; i < count; ++i) {
    const auto dtype = static_cast<DType>(*word++);
    const int64_t flags = *word++, ndim = *word++;
    requires_grad_.push_back((flags & requires_gradient) != 0);
    SampleLayout& layout = layouts_.emplace_back();
    if ((flags & is_there) == 0) {
      values_.emplace_back();
      continue;
    }
    const Shape shape(std::span<const int64_t>(word, static_cast<size_t>(ndim)));
    word += ndim;
    if ((flags & has_layout) != 0) {
      layout = {static_cast<SampleLayout::Kind>(word[0]), static_cast<int>(word[1]), word[2], word[3]};
      word += 4;
    }
    values_.push_back(Tensor::empty(shape, dtype, ranks_.device()));
    if (values_.back().numel() > 0)
      calls_.push_back(ranks_.recv(values_.back(), place_.peer, place_.tag, options_of(place_)));
  }
}

PassedValues IncomingValues::take(bool with_gradients) {
  wait_for_header();
  for (Work& call : calls_) call.wait();
  PassedValues taken{.values = {}, .random = std::move(random_)};
  for (size_t i = 0; i < values_.size(); ++i) {
    Variable& value = taken.values.emplace_back();
    if (!values_[i].defined()) continue;
    value = Variable(values_[i], with_gradients && requires_grad_[i]);
    value.impl()->samples = layouts_[i];
  }
  values_.clear();
  return taken;
}

}  // namespace tessera::dist
