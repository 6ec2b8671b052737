#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dist/launch/world.h"

namespace tessera::dist {

/// A dimension of a mesh: "replica", "shard", "pipeline", "tensor", ...
struct MeshDimension {
  std::string name;  ///< not empty, and once in a mesh
  int size = 1;      ///< ranks along it
};

/// The ranks of a world as an array with named dimensions. The last one varies fastest: neighbours along it
/// are neighbours in the world, and so mostly on the same machine. A handle; all ranks construct it together.
class Mesh {
 public:
  /// One dimension, "shard", of the whole world.
  explicit Mesh(World& world);
  /// Throws ConfigError unless the product of the sizes is the world's; one size may be -1 and is inferred.
  Mesh(World& world, std::vector<MeshDimension> dimensions);

  /// The machine that each rank of the world runs on.
  const std::vector<std::string>& hosts() const;
  /// The world given to the constructor, which must outlive the mesh.
  World& world() const { return *world_; }
  /// As given to the constructor, with a size of -1 replaced.
  const std::vector<MeshDimension>& dimensions() const { return dimensions_; }
  /// Whether the mesh has a dimension of this name.
  bool has(const std::string& dimension) const;
  /// 1 for a dimension that the mesh does not have.
  int size(const std::string& dimension) const;
  /// This rank's index along a dimension; 0 for one that the mesh does not have.
  int index(const std::string& dimension) const;
  /// The ranks that differ from this one in this dimension only. Throws ConfigError for an unknown name.
  const std::shared_ptr<Communicator>& group(const std::string& dimension) const;
  /// The ranks that differ from this one in these dimensions only, in the order of the world.
  const std::shared_ptr<Communicator>& group(const std::vector<std::string>& dimensions) const;
  /// For `group({"replica", "shard"})`, which could otherwise mean a string from two pointers.
  const std::shared_ptr<Communicator>& group(std::initializer_list<std::string_view> dimensions) const;

 private:
  struct Groups;
  World* world_;
  std::vector<MeshDimension> dimensions_;
  std::shared_ptr<Groups> groups_;
};

/// A table of the mesh: rows and columns of ranks, and the machines they run on.
std::string to_string(const Mesh& mesh);

}  // namespace tessera::dist
