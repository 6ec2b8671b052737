#include "dist/checkpoint/rank_pieces.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tensor/error.h"

namespace tessera::dist {
namespace {

/// `tensor` has the elements that this rank holds of the parameter.
TensorPiece piece_of(const std::string& name, const NamedParameter& parameter, const Tensor& tensor,
                     const Holding& holding) {
  const Shape& shape = parameter.full_shape();
  if (!parameter.shard) return {name, shape, whole(shape), tensor, holding.wholes};
  // A rank may hold nothing, and then it does not matter where.
  const int64_t first = std::min(parameter.shard->first, shape.numel() - tensor.numel());
  const Replicas replicas = shape.numel() == 0 ? holding.wholes : holding.shards;
  return {name, shape, flat_range(shape, first, first + tensor.numel()), tensor, replicas};
}

/// Every rank counts the steps of every parameter, and a rank that holds nothing of one may count otherwise.
TensorPiece counter_of(const std::string& name, const NamedParameter& parameter, const Tensor& tensor,
                       const Holding& holding) {
  Replicas replicas = holding.wholes;
  if (parameter.shard && parameter.full_shape().numel() > 0) {
    const bool has_first = parameter.shard->first == 0 && parameter.variable.numel() > 0;
    replicas = has_first ? holding.shards : Replicas{0, 0};
  }
  return {name, tensor.shape(), whole(tensor.shape()), tensor, replicas};
}

void mark_own(TensorPiece& piece, const std::string& name, const Holding& holding) {
  if (holding.own.contains(name)) piece.own = holding.place;
}

/// A range of a piece's own elements.
TensorPiece part_of(const TensorPiece& piece, int64_t begin, int64_t end) {
  if (begin == 0 && end == piece.piece.numel()) return piece;
  TensorPiece part = piece;
  part.piece.begin = piece.piece.begin + begin;
  part.piece.end = piece.piece.begin + end;
  part.tensor = piece.tensor.contiguous().view({piece.piece.numel()}).narrow(0, begin, end - begin);
  return part;
}

}  // namespace

PieceGroup model_pieces(const ParameterList& parameters, std::span<const NamedTensor> buffers,
                        const Holding& holding) {
  PieceGroup group{"model", {}};
  for (const NamedParameter& parameter : parameters) {
    group.pieces.push_back(piece_of(parameter.name, parameter, parameter.values(), holding));
    if (parameter.master.defined()) group.pieces.back().rounded = parameter.variable.value();
    mark_own(group.pieces.back(), parameter.name, holding);
  }
  // Ranks need not agree on a buffer (statistics of their own batches), so it is not put together from many.
  const Replicas writer{holding.wholes.index == 0 ? 1 : 0, 0};
  for (const NamedTensor& buffer : buffers) {
    const bool is_own = holding.own.contains(buffer.name);
    group.pieces.push_back({buffer.name, buffer.tensor.shape(), whole(buffer.tensor.shape()), buffer.tensor,
                            is_own ? holding.wholes : writer});
    mark_own(group.pieces.back(), buffer.name, holding);
  }
  return group;
}

PieceGroup optimizer_pieces(const ParameterList& parameters, const optim::OptimizerState& state,
                            const Holding& holding) {
  std::map<std::string_view, const NamedParameter*> by_name;
  for (const NamedParameter& parameter : parameters) by_name[parameter.name] = &parameter;
  PieceGroup group{"optimizer", {}};
  for (const NamedTensor& entry : state.tensors) {
    const size_t slash = entry.name.find('/');
    const auto found = slash == std::string::npos
                           ? by_name.end()
                           : by_name.find(std::string_view(entry.name).substr(slash + 1));
    require<CheckpointError>(found != by_name.end(), "optimizer state '", entry.name,
                             "': belongs to no parameter of the list");
    const NamedParameter& parameter = *found->second;
    const bool is_counter = entry.tensor.dtype() == i64 && entry.tensor.rank() == 0;
    require<CheckpointError>(is_counter || entry.tensor.shape() == parameter.variable.shape(),
                             "optimizer state '", entry.name, "': expected shape ",
                             parameter.variable.shape(), ", got ", describe(entry.tensor));
    group.pieces.push_back(is_counter ? counter_of(entry.name, parameter, entry.tensor, holding)
                                      : piece_of(entry.name, parameter, entry.tensor, holding));
    mark_own(group.pieces.back(), parameter.name, holding);
  }
  return group;
}

std::vector<TensorPiece> pieces_to_write(const PieceGroup& group) {
  using Key = std::pair<int, int>;  // pieces with the same replicas: their count and this rank's index
  std::map<Key, int64_t> totals, positions;
  for (const TensorPiece& piece : group.pieces)
    totals[{piece.replicas.count, piece.replicas.index}] += piece.tensor.nbytes();
  std::vector<TensorPiece> mine;
  for (const TensorPiece& piece : group.pieces) {
    const Replicas& replicas = piece.replicas;
    if (replicas.count == 0) continue;
    const int64_t n = piece.piece.numel(), size = size_of(piece.tensor.dtype());
    if (n == 0) {
      // A tensor without elements is one too, and must be found again; a part without elements is nothing.
      if (piece.shape.numel() == 0 && replicas.index == 0) mine.push_back(piece);
      continue;
    }
    // An element belongs to the stretch that its first byte is in.
    const Key key{replicas.count, replicas.index};
    const int64_t total = totals[key];
    int64_t& position = positions[key];
    const auto boundary = [&](int64_t stretch) {
      const int64_t bytes =
          total / replicas.count * stretch + total % replicas.count * stretch / replicas.count - position;
      return std::clamp<int64_t>((bytes + size - 1) / size, 0, n);
    };
    const int64_t begin = boundary(replicas.index), end = boundary(replicas.index + 1);
    position += n * size;
    if (begin < end) mine.push_back(part_of(piece, begin, end));
  }
  return mine;
}

}  // namespace tessera::dist
