#pragma once  // not in tessera.h

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tessera::dist {

class World;

/// A connection between ranks.
struct LinkRates {
  double bytes_per_second = 0;  ///< that a rank sends
  double latency = 0;           ///< seconds from a send to its arrival, for a message without bytes
  /// Links of one name are one: what a rank sends at the same time along several dimensions that have it
  /// shares its rate. Empty: a link of its own.
  std::string name = {};
};

/// How fast a machine is: what a prediction of time stands on. Rates are those of one rank.
struct MachineRates {
  double flops_per_second = 0;         ///< of matrix products and attention
  double memory_bytes_per_second = 0;  ///< read and written together
  LinkRates link;  ///< between ranks along the dimensions of the mesh without an entry below
  /// Along a dimension: "pipeline", "shard" or "replica".
  std::map<std::string, LinkRates> links = {};
  /// Messages are sent beside what a rank computes, as by a card or a thread of its own. Else they take the
  /// rank's time: ranks of one machine copy them through its memory.
  bool overlaps = true;
  /// How fast each rank of the world computes, as a factor: 1 by default, 0.5 for one that is half as fast.
  std::vector<double> speeds = {};

  /// The link along a dimension.
  const LinkRates& along(const std::string& dimension) const;
  /// Throws ConfigError, naming the field, for a rate that is not positive and finite, or a negative latency.
  void validate() const;
};

/// The rates of this machine, as each rank of `world` measures them while the others do the same: matrix
/// products, copies, and messages between all ranks. The slowest rank's. All ranks call it together; it takes
/// about a second.
MachineRates measure_machine(World& world);

/// Seconds of a call in which `ranks` ranks gather, or reduce and scatter, `bytes` of all together: each
/// sends (ranks - 1)/ranks of them, in ceil(log2(ranks)) rounds at least (Chan et al., "Collective
/// communication: theory, practice, and experience", 2007). An all_reduce is two of them.
double collective_seconds(const LinkRates& link, int64_t bytes, int64_t ranks);

}  // namespace tessera::dist
