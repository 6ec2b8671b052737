#include "dist/checkpoint/own_pieces.h"

#include <algorithm>
#include <map>

#include "dist/fsdp/value_hash.h"

namespace tessera::dist {
namespace {

constexpr char mark = '@';

/// "@shard=1,replica=0".
std::string place_text(std::span<const MeshIndex> place) {
  std::string result;
  for (const MeshIndex& along : place)
    result += text(result.empty() ? mark : ',', along.dimension, "=", along.index);
  return result;
}

/// Every rank's place, and its hashes of the own pieces: one row a rank.
struct Comparison {
  Tensor places, hashes;

  int64_t place(int64_t rank, int64_t dimension) const {
    return places.data<int64_t>()[rank * places.size(1) + dimension];
  }
  int64_t hash(int64_t rank, int64_t piece) const {
    return hashes.data<int64_t>()[rank * hashes.size(1) + piece];
  }

  /// Whether ranks that are apart in this dimension alone hold other values of a piece.
  bool differs_along(int64_t dimension, int64_t piece) const {
    std::map<std::vector<int64_t>, int64_t> lines;
    for (int64_t rank = 0; rank < places.size(0); ++rank) {
      std::vector<int64_t> line;
      for (int64_t d = 0; d < places.size(1); ++d)
        if (d != dimension) line.push_back(place(rank, d));
      if (lines.try_emplace(line, hash(rank, piece)).first->second != hash(rank, piece)) return true;
    }
    return false;
  }
};

Tensor gather_places(Communicator& world, const std::vector<MeshIndex>& place) {
  std::vector<int64_t> mine;
  for (const MeshIndex& along : place) mine.push_back(along.index);
  const Tensor all = Tensor::empty({world.size(), std::ssize(mine)}, i64);
  world
      .all_gather(all, Tensor::from(std::span<const int64_t>(mine), {std::ssize(mine)}),
                  {.unit = "places on the mesh", .traffic = Traffic::state})
      .wait();
  return all;
}

/// The name of its place, and one writer for each.
void store_apart(TensorPiece& piece, const Comparison& ranks, int64_t index) {
  std::vector<MeshIndex> apart;
  bool is_writer = true;
  for (size_t d = 0; d < piece.own.size(); ++d)
    if (ranks.differs_along(static_cast<int64_t>(d), index))
      apart.push_back(piece.own[d]);
    else
      is_writer = is_writer && piece.own[d].index == 0;
  if (apart.empty()) return;
  piece.name += place_text(apart);
  piece.replicas = {is_writer ? 1 : 0, 0};
}

/// How many places a mesh has along the dimensions that a stored name has, if the name is of this one: 2 for
/// "@shard=1" and {replica 0 of 3, shard 1 of 2}, 0 for "@shard=0".
int64_t places_if_here(const std::string& stored, std::span<const MeshIndex> place) {
  int64_t places = 1;
  for (size_t begin = 1; begin < stored.size();) {  // behind the mark, and then behind each comma
    const size_t end = std::min(stored.find(',', begin), stored.size());
    const std::string step = stored.substr(begin, end - begin);
    const auto along = std::find_if(place.begin(), place.end(), [&](const MeshIndex& here) {
      return text(here.dimension, "=", here.index) == step;
    });
    if (along == place.end()) return 0;
    places *= along->size;
    begin = end + 1;
  }
  return places;
}

void find_own(const CheckpointReader& reader, const std::string& group, TensorPiece& piece) {
  const TensorId id{group, piece.name};
  if (reader.tensors().contains(id)) return;
  const std::vector<TensorId> stored = own_tensors(reader.tensors(), id);
  if (stored.empty()) return;  // missing: said with all others
  for (const TensorId& candidate : stored) {
    if (places_if_here(candidate.name.substr(piece.name.size()), piece.own) != std::ssize(stored)) continue;
    piece.name = candidate.name;
    return;
  }
  throw CheckpointError(text(reader.folder(), ": tensor '", id, "' is each rank's own, saved at ",
                             stored.size(), " places (", stored.front().name, " ...); this rank's, ",
                             place_text(piece.own).substr(1), ", is none of them: load it on the same mesh"));
}

}  // namespace

std::vector<PieceGroup> name_own_pieces(Communicator& world, std::span<const PieceGroup> groups) {
  std::vector<PieceGroup> named(groups.begin(), groups.end());
  std::vector<TensorPiece*> own;
  std::vector<Tensor> tensors;
  for (PieceGroup& group : named)
    for (TensorPiece& piece : group.pieces)
      if (!piece.own.empty()) {
        own.push_back(&piece);
        tensors.push_back(piece.tensor);
      }
  if (own.empty()) return named;
  const Comparison ranks{gather_places(world, own.front()->own), gather_value_hashes(world, tensors)};
  for (size_t i = 0; i < own.size(); ++i) store_apart(*own[i], ranks, static_cast<int64_t>(i));
  return named;
}

std::vector<PieceGroup> find_own_pieces(const CheckpointReader& reader, std::span<const PieceGroup> groups) {
  std::vector<PieceGroup> found(groups.begin(), groups.end());
  for (PieceGroup& group : found)
    for (TensorPiece& piece : group.pieces)
      if (!piece.own.empty()) find_own(reader, group.name, piece);
  return found;
}

std::vector<TensorId> own_tensors(const StoredTensors& tensors, const TensorId& id) {
  std::vector<TensorId> found;
  const std::string begin = id.name + mark;
  for (auto next = tensors.lower_bound({id.group, begin});
       next != tensors.end() && next->first.group == id.group && next->first.name.starts_with(begin); ++next)
    found.push_back(next->first);
  return found;
}

std::string shared_name(const std::string& name) {
  return name.substr(0, name.rfind(mark));
}

}  // namespace tessera::dist
