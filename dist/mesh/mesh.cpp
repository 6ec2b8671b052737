#include "dist/mesh/mesh.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "tensor/error.h"

namespace tessera::dist {

struct Mesh::Groups {
  std::vector<int> index;          // this rank's, per dimension
  std::vector<std::string> hosts;  // per rank of the world
  std::map<std::vector<std::string>, std::shared_ptr<Communicator>> by_dimensions;
};

namespace {

/// The dimensions, with a size of -1 inferred from the others.
std::vector<MeshDimension> resolve(std::vector<MeshDimension> dimensions, int world) {
  require<ConfigError>(!dimensions.empty(), "Mesh: expected at least one dimension, got none");
  std::set<std::string> names;
  int64_t known_product = 1;
  MeshDimension* inferred = nullptr;
  for (MeshDimension& dimension : dimensions) {
    require<ConfigError>(!dimension.name.empty() && names.insert(dimension.name).second, "Mesh: the name '",
                         dimension.name, "' is empty or given twice");
    require<ConfigError>(dimension.size > 0 || dimension.size == -1, "Mesh: dimension '", dimension.name,
                         "' has size ", dimension.size, "; expected a positive one, or -1 for the rest");
    require<ConfigError>(dimension.size > 0 || !inferred, "Mesh: dimension '", dimension.name,
                         "' has size -1; expected only one to be -1");
    if (dimension.size == -1)
      inferred = &dimension;
    else
      known_product *= dimension.size;
  }
  if (inferred) inferred->size = static_cast<int>(std::max<int64_t>(world / known_product, 1));
  int64_t product = 1;
  std::string sizes;
  for (const MeshDimension& dimension : dimensions) {
    product *= dimension.size;
    sizes += text(sizes.empty() ? "" : " x ", dimension.name, " ", dimension.size);
  }
  require<ConfigError>(product == world, "Mesh: ", sizes, " is ", product, " ranks, but the world has ",
                       world);
  return dimensions;
}

/// The name of every rank's machine.
std::vector<std::string> hosts_of(World& world) {
  constexpr size_t longest = 64;
  const Tensor all = Tensor::zeros({world.size(), longest}, DType::u8);
  const Tensor mine = Tensor::zeros({longest}, DType::u8);
  std::memcpy(mine.raw_data(), world.host().data(), std::min(world.host().size(), longest - 1));
  world.communicator().all_gather(all, mine, {.unit = "hosts"}).wait();
  std::vector<std::string> hosts;
  for (int rank = 0; rank < world.size(); ++rank)
    hosts.emplace_back(static_cast<const char*>(all.select(0, rank).raw_data()));
  return hosts;
}

/// "0   1" with each number as wide as the widest.
std::string row_of(int64_t first, int count, size_t width) {
  std::string row;
  for (int i = 0; i < count; ++i) {
    const std::string number = std::to_string(first + i);
    row += std::string(width - number.size() + 2, ' ') + number;
  }
  return row;
}

}  // namespace

Mesh::Mesh(World& world) : Mesh(world, {{"shard", world.size()}}) {}

Mesh::Mesh(World& world, std::vector<MeshDimension> dimensions)
    : world_(&world),
      dimensions_(resolve(std::move(dimensions), world.size())),
      groups_(std::make_shared<Groups>()) {
  groups_->index.resize(dimensions_.size());
  groups_->hosts = hosts_of(world);
  int rest = world.rank();
  for (size_t i = dimensions_.size(); i-- > 0; rest /= dimensions_[i].size)
    groups_->index[i] = rest % dimensions_[i].size;
  // Every subset of dimensions, in one order on all ranks: making a group is a collective.
  for (size_t chosen = 1; chosen < (size_t{1} << dimensions_.size()); ++chosen) {
    std::vector<std::string> names;
    int color = 0;
    std::string name;
    for (size_t i = 0; i < dimensions_.size(); ++i) {
      if (chosen >> i & 1) {
        names.push_back(dimensions_[i].name);
        name += (name.empty() ? "" : "+") + dimensions_[i].name;
      } else {
        color = color * dimensions_[i].size + groups_->index[i];
      }
    }
    std::sort(names.begin(), names.end());
    const bool all = chosen + 1 == size_t{1} << dimensions_.size();
    groups_->by_dimensions[names] = all && dimensions_.size() > 1
                                        ? world.shared_communicator()
                                        : world.communicator().split(color, world.rank(), name);
  }
}

bool Mesh::has(const std::string& dimension) const {
  return std::any_of(dimensions_.begin(), dimensions_.end(),
                     [&](const MeshDimension& d) { return d.name == dimension; });
}

int Mesh::size(const std::string& dimension) const {
  for (const MeshDimension& d : dimensions_)
    if (d.name == dimension) return d.size;
  return 1;
}

int Mesh::index(const std::string& dimension) const {
  for (size_t i = 0; i < dimensions_.size(); ++i)
    if (dimensions_[i].name == dimension) return groups_->index[i];
  return 0;
}

const std::shared_ptr<Communicator>& Mesh::group(const std::string& dimension) const {
  return group(std::vector<std::string>{dimension});
}

const std::shared_ptr<Communicator>& Mesh::group(std::initializer_list<std::string_view> dimensions) const {
  return group(std::vector<std::string>(dimensions.begin(), dimensions.end()));
}

const std::shared_ptr<Communicator>& Mesh::group(const std::vector<std::string>& dimensions) const {
  std::vector<std::string> names = dimensions;
  std::sort(names.begin(), names.end());
  const auto found = groups_->by_dimensions.find(names);
  if (found != groups_->by_dimensions.end()) return found->second;
  std::string given, known;
  for (const std::string& name : dimensions) given += (given.empty() ? "" : ", ") + name;
  for (const MeshDimension& d : dimensions_) known += (known.empty() ? "" : ", ") + d.name;
  throw ConfigError(text("Mesh: no group along ", given, "; the dimensions are ", known));
}

const std::vector<std::string>& Mesh::hosts() const {
  return groups_->hosts;
}

std::string to_string(const Mesh& mesh) {
  const std::vector<MeshDimension>& dimensions = mesh.dimensions();
  const int columns = dimensions.back().size;
  const int64_t ranks = mesh.world().size();
  const size_t width = std::to_string(ranks - 1).size();
  std::string title;
  for (const MeshDimension& d : dimensions) title += text(title.empty() ? "" : " x ", d.name, " ", d.size);
  std::string table = text(title, "\n");
  size_t label_width = 0;
  std::vector<std::string> labels;
  for (int64_t first = 0; first < ranks; first += columns) {
    std::string label;
    int64_t rest = first / columns;
    for (size_t i = dimensions.size() - 1; i-- > 0; rest /= dimensions[i].size)
      label = text(dimensions[i].name, " ", rest % dimensions[i].size, label.empty() ? "" : ", ", label);
    label_width = std::max(label_width, label.size());
    labels.push_back(label);
  }
  for (int64_t row = 0; row < std::ssize(labels); ++row) {
    const int64_t first = row * columns;
    std::string where = mesh.hosts()[first];
    for (int64_t rank = first + 1; rank < first + columns; ++rank)
      if (mesh.hosts()[rank] != mesh.hosts()[rank - 1]) where += ", " + mesh.hosts()[rank];
    const std::string& label = labels[row];
    table += text("  ", label, std::string(label_width - label.size(), ' '), row_of(first, columns, width),
                  "    on ", where, "\n");
  }
  return table;
}

}  // namespace tessera::dist
