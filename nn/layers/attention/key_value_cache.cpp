#include "nn/layers/attention/key_value_cache.h"

#include <algorithm>
#include <numeric>

#include "autograd/autocast/autocast.h"
#include "tensor/ops/elementwise/cast.h"

namespace tessera::nn {

KeyValueCache::KeyValueCache(const Options& o)
    : lengths_(static_cast<size_t>(std::max<int64_t>(o.batch, 0))), written_(lengths_) {
  const auto at_least_one = [](int64_t value, const char* name) {
    require<ConfigError>(value >= 1, "nn::KeyValueCache: expected ", name, " to be at least 1, got ", value);
  };
  at_least_one(o.batch, "batch");
  at_least_one(o.heads, "heads");
  at_least_one(o.capacity, "capacity");
  at_least_one(o.width, "width");
  const Shape shape{o.batch, o.heads, o.capacity, o.width};
  keys_ = Tensor::empty(shape, o.dtype, o.device);
  values_ = Tensor::empty(shape, o.dtype, o.device);
}

int64_t KeyValueCache::length() const {
  return *std::max_element(lengths_.begin(), lengths_.end());
}

bool KeyValueCache::is_ragged() const {
  return std::any_of(lengths_.begin(), lengths_.end(), [&](int64_t n) { return n != lengths_[0]; });
}

std::vector<int64_t> KeyValueCache::checked_counts(const Tensor& keys, const Tensor& values,
                                                   std::span<const int64_t> counts) const {
  const bool fits = keys.ndim() == 4 && keys.size(0) == batch() && keys.size(1) == heads() &&
                    keys.size(3) == width() && keys.shape() == values.shape();
  require<ShapeError>(fits, "nn::KeyValueCache: expected keys and values (", batch(), ", ", heads(), ", T, ",
                      width(), "), got ", keys.shape(), " and ", values.shape());
  std::vector<int64_t> all(counts.begin(), counts.end());
  if (all.empty()) all.assign(lengths_.size(), keys.size(2));
  check_counts(all, keys.size(2));
  return all;
}

void KeyValueCache::check_counts(std::span<const int64_t> counts, int64_t most) const {
  require<ValueError>(counts.size() == lengths_.size(),
                      "nn::KeyValueCache: expected a count for each of the ", batch(), " rows, got ",
                      counts.size());
  for (size_t b = 0; b < counts.size(); ++b) {
    require<ValueError>(counts[b] >= 0 && counts[b] <= most, "nn::KeyValueCache: expected counts in 0 .. ",
                        most, ", got ", counts[b], " for row ", b);
    require<ShapeError>(lengths_[b] + counts[b] <= capacity(), "nn::KeyValueCache: ", counts[b],
                        " more positions after ", lengths_[b], " do not fit the cache of ", capacity(),
                        " (row ", b, ")");
  }
}

void KeyValueCache::append(const Tensor& keys, const Tensor& values, std::span<const int64_t> given) {
  const std::vector<int64_t> counts = checked_counts(keys, values, given);
  const bool equal = !is_ragged() && std::equal(counts.begin() + 1, counts.end(), counts.begin());
  if (equal) {
    store(keys, values, 0, batch(), lengths_[0], counts[0]);
  } else {
    for (int64_t b = 0; b < batch(); ++b) {
      const auto row = static_cast<size_t>(b);
      store(keys.narrow(0, b, 1), values.narrow(0, b, 1), b, 1, lengths_[row], counts[row]);
    }
  }
  advance(counts);
}

/// Writes the first `count` of keys and values (rows, H, T, D) to positions `first` .. of rows `row` ..
void KeyValueCache::store(const Tensor& keys, const Tensor& values, int64_t row, int64_t rows, int64_t first,
                          int64_t count) {
  if (count == 0) return;
  const auto stored = [&](const Tensor& x) {
    const Tensor added = x.narrow(2, 0, count);
    return is_autocast_enabled() ? ops::cast(added, keys_.dtype()) : added;
  };
  keys_.narrow(0, row, rows).narrow(2, first, count).copy_from(stored(keys));
  values_.narrow(0, row, rows).narrow(2, first, count).copy_from(stored(values));
}

/// After the keys and values of so many more positions have been stored.
void KeyValueCache::advance(std::span<const int64_t> counts) {
  for (size_t b = 0; b < counts.size(); ++b) {
    lengths_[b] += counts[b];
    written_[b] = std::max(written_[b], lengths_[b]);
  }
  if (is_ragged()) fill_ends();
}

/// Rows end before the longest one: a product of a weight 0 with what follows there must be 0. Filled some
/// positions further on, so that it is not done with every position.
void KeyValueCache::fill_ends() {
  const int64_t longest = length(), end = std::min(capacity(), longest + 63);
  for (size_t b = 0; b < written_.size(); ++b) {
    if (written_[b] >= longest) continue;
    for (const Tensor* x : {&keys_, &values_})
      x->narrow(0, static_cast<int64_t>(b), 1).narrow(2, written_[b], end - written_[b]).zero();
    written_[b] = end;
  }
}

void KeyValueCache::truncate(int64_t length) {
  truncate(std::vector<int64_t>(lengths_.size(), length));
}

void KeyValueCache::truncate(std::span<const int64_t> lengths) {
  require<ValueError>(lengths.size() == lengths_.size(),
                      "nn::KeyValueCache: expected a length for each of the ", batch(), " rows, got ",
                      lengths.size());
  for (const int64_t length : lengths)
    require<ValueError>(length >= 0, "nn::KeyValueCache: expected lengths of at least 0, got ", length);
  for (size_t b = 0; b < lengths_.size(); ++b) lengths_[b] = std::min(lengths_[b], lengths[b]);
}

void KeyValueCache::reorder(std::span<const int64_t> rows) {
  require<ValueError>(!rows.empty(), "nn::KeyValueCache: expected at least 1 row to go on from");
  for (const int64_t row : rows)
    require<IndexError>(row >= 0 && row < batch(), "nn::KeyValueCache: row ", row, " of ", batch());
  const Shape shape{std::ssize(rows), heads(), capacity(), width()};
  const Tensor keys = Tensor::empty(shape, keys_.dtype(), keys_.device()),
               values = Tensor::empty(shape, keys_.dtype(), keys_.device());
  std::vector<int64_t> lengths, written;
  for (const int64_t row : rows) {
    const int64_t b = std::ssize(lengths), count = written_[static_cast<size_t>(row)];
    lengths.push_back(lengths_[static_cast<size_t>(row)]);
    written.push_back(count);
    if (count == 0) continue;
    keys.narrow(0, b, 1).narrow(2, 0, count).copy_from(keys_.narrow(0, row, 1).narrow(2, 0, count));
    values.narrow(0, b, 1).narrow(2, 0, count).copy_from(values_.narrow(0, row, 1).narrow(2, 0, count));
  }
  keys_ = keys;
  values_ = values;
  lengths_ = std::move(lengths);
  written_ = std::move(written);
}

Variable KeyValueCache::attend(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options,
                               std::span<const int64_t> counts) {
  std::vector<int64_t> first_positions = lengths_;
  const bool ragged = is_ragged() || !counts.empty();
  append(k, v, counts);
  options.causal = true;
  options.enable_gqa = q.size(1) != heads();
  if (ragged) options.first_positions = std::move(first_positions);
  return scaled_dot_product_attention(q, keys(), values(), options);
}

Tensor KeyValueCache::attend_packed(const Tensor& q, const Tensor& k, const Tensor& v,
                                    AttentionOptions options, std::span<const int64_t> given) {
  std::vector<int64_t> counts(given.begin(), given.end());
  if (counts.empty()) counts.assign(lengths_.size(), 1);
  check_counts(counts, capacity());
  const int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  require<ShapeError>(q.ndim() == 3 && k.ndim() == 3 && q.size(0) == all && k.size(0) == all &&
                          v.shape() == k.shape() && k.size(1) == heads() && k.size(2) == keys_.size(3),
                      "nn::KeyValueCache: expected ", all, " positions of all rows with ", heads(),
                      " heads of width ", keys_.size(3), ", got queries ", q.shape(), ", keys ", k.shape(),
                      " and values ", v.shape());
  // (rows, H, count, D) of (rows count, H, D).
  const auto heads_of = [](const Tensor& x, int64_t rows, int64_t count) {
    return x.view({rows, count, x.size(1), x.size(2)}).transpose(1, 2);
  };
  const bool equal = std::equal(counts.begin() + 1, counts.end(), counts.begin());
  if (equal && !(is_ragged() && counts[0] > 1)) {
    const int64_t count = counts[0];
    const Variable out = attend(heads_of(q, batch(), count), heads_of(k, batch(), count),
                                heads_of(v, batch(), count), std::move(options));
    return out.value().transpose(1, 2).reshape(q.shape());
  }
  options.causal = true;
  options.enable_gqa = q.size(1) != heads();
  const Tensor out = Tensor::empty(q.shape(), q.dtype(), q.device());
  int64_t first = 0;
  for (int64_t b = 0; b < batch(); ++b) {
    const int64_t count = counts[static_cast<size_t>(b)], before = lengths_[static_cast<size_t>(b)];
    if (count == 0) continue;
    const auto row_of = [&](const Tensor& x) { return heads_of(x.narrow(0, first, count), 1, count); };
    store(row_of(k), row_of(v), b, 1, before, count);
    const auto stored = [&](const Tensor& x) { return x.narrow(0, b, 1).narrow(2, 0, before + count); };
    const Variable row = scaled_dot_product_attention(row_of(q), stored(keys_), stored(values_), options);
    out.narrow(0, first, count).copy_from(row.value().transpose(1, 2).select(0, 0));
    first += count;
  }
  advance(counts);
  return out;
}

}  // namespace tessera::nn
