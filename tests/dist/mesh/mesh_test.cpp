#include <doctest/doctest.h>

#include "dist/mesh/mesh.h"
#include "tensor/error.h"
#include "tests/dist/fsdp/rank_threads.h"

using namespace tessera;
using namespace tessera::dist;

TEST_CASE("mesh: coordinates and groups, the last dimension varies fastest") {
  struct Result {
    int replica, shard;
    std::vector<int> along_shard, along_replica, both;
    std::string table, host;
  };
  const auto members = [](const Communicator& group) {
    return std::vector<int>(group.members().begin(), group.members().end());
  };
  const std::vector<Result> results = on_ranks<Result>(6, [&](World& world) {
    const Mesh mesh(world, {{"replica", 2}, {"shard", -1}});
    return Result{mesh.index("replica"),
                  mesh.index("shard"),
                  members(*mesh.group("shard")),
                  members(*mesh.group("replica")),
                  members(*mesh.group(std::vector<std::string>{"shard", "replica"})),
                  to_string(mesh),
                  world.host()};
  });
  CHECK(results[4].replica == 1);
  CHECK(results[4].shard == 1);
  CHECK(results[4].along_shard == std::vector<int>{3, 4, 5});
  CHECK(results[4].along_replica == std::vector<int>{1, 4});
  CHECK(results[4].both == std::vector<int>{0, 1, 2, 3, 4, 5});
  const std::string where = "    on " + results[0].host + "\n";
  CHECK(results[0].table ==
        "replica 2 x shard 3\n  replica 0  0  1  2" + where + "  replica 1  3  4  5" + where);
}

TEST_CASE("mesh: sizes with another product than the world's are an error that names both") {
  on_ranks<int>(4, [](World& world) {
    CHECK_THROWS_WITH_AS(Mesh(world, {{"replica", 3}, {"shard", 2}}), doctest::Contains("6 ranks"),
                         ConfigError);
    CHECK_THROWS_AS(Mesh(world, {{"shard", 0}}), ConfigError);
    CHECK_THROWS_WITH_AS(Mesh(world, {{"shard", -1}, {"replica", -1}}),
                         doctest::Contains("only one to be -1"), ConfigError);
    CHECK_THROWS_WITH_AS(Mesh(world, {{"shard", -1}, {"replica", 0}}),
                         doctest::Contains("'replica' has size 0; expected a positive one"), ConfigError);
    CHECK_THROWS_WITH_AS(Mesh(world, std::vector<MeshDimension>{}),
                         doctest::Contains("at least one dimension"), ConfigError);
    CHECK_THROWS_AS(Mesh(world, {{"shard", 2}, {"shard", 2}}), ConfigError);
    CHECK_THROWS_AS(Mesh(world, {{"replica", 3}, {"shard", -1}}), ConfigError);
    const Mesh mesh(world);
    CHECK_THROWS_WITH_AS(mesh.group("stage"), doctest::Contains("the dimensions are shard"), ConfigError);
    CHECK(mesh.size("stage") == 1);
    CHECK(mesh.index("stage") == 0);
    return 0;
  });
}
