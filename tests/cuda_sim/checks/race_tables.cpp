#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tools/cuda_sim/checks/races/access_parts.h"
#include "tools/cuda_sim/checks/races/access_sets.h"
#include "tools/cuda_sim/checks/races/cell.h"
#include "tools/cuda_sim/checks/races/epoch_table.h"
#include "tools/cuda_sim/checks/races/knowledge.h"
#include "tools/cuda_sim/checks/races/operation_sets.h"
#include "tools/cuda_sim/checks/races/shadow_pages.h"
#include "tools/cuda_sim/checks/races/stamp.h"
#include "tools/cuda_sim/checks/races/transition.h"

using namespace tessera::cuda_sim;

namespace {

Cell cell_of(uint32_t operation, uint32_t stamp = 0) {
  return {.write_operation = OperationMark::of(operation, false),
          .write = Stamp{stamp},
          .access_operation = {},
          .access = {}};
}

Access access_of(uint32_t bytes, uint64_t first, uint64_t stride, LaneMask lanes = all_lanes) {
  Access access;
  access.bytes = bytes;
  access.lanes = lanes;
  for (uint64_t lane = 0; lane < warp_lanes; ++lane) access.address[lane] = first + lane * stride;
  access.pattern = lanes != all_lanes ? AccessPattern::scattered
                   : stride == bytes  ? AccessPattern::contiguous
                   : stride == 0      ? AccessPattern::broadcast
                                      : AccessPattern::scattered;
  return access;
}

}  // namespace

TEST_CASE("stamps give the lane of each address, whatever the bytes") {
  for (const uint32_t layout : {0u, 1u, 2u, 3u, 4u})
    for (const uint64_t first : {uint64_t{0}, uint64_t{96}, uint64_t{4080}}) {
      const uint64_t begin = first << layout;
      const Stamp stamp = Stamp::of_lane(77, layout, 0, begin);
      CHECK(stamp.epoch() == 77);
      CHECK_FALSE(stamp.is_set());
      for (uint64_t byte = 0; byte < uint64_t{32} << layout; ++byte)
        REQUIRE(stamp.lanes(begin + byte) == 1u << (byte >> layout));
    }
  CHECK(Stamp::of(5, Stamp::every_lane, 0).lanes(12) == all_lanes);
  CHECK(Stamp::of_set(9).is_set());
  CHECK(Stamp::of_set(9).set() == 9);
}

TEST_CASE("parts of an access: a row, one place, rows of a tile, a column") {
  const auto count = [](const Access& access) {
    return AccessParts(access, 1, AccessKind::plain_read, false).all().size();
  };
  CHECK(count(access_of(4, 4096, 4)) == 1);
  CHECK(count(access_of(16, 4096, 16)) == 1);
  CHECK(count(access_of(4, 4096, 0)) == 1);
  CHECK(count(access_of(4, 4096, 0, 0xff)) == 1);
  CHECK(count(access_of(4, 4096, 4, 0xff0)) == 1);
  CHECK(count(access_of(4, 4096, 8)) == 32);
  const AccessParts some(access_of(2, 4096, 2, 0xff0), 1, AccessKind::plain_read, false);
  CHECK(some.all()[0].address == 4104);
  CHECK(some.all()[0].bytes == 16);
  CHECK(some.all()[0].by.lanes_at(4106) == 1u << 5);
  Access halves = access_of(4, 4096, 4);
  for (size_t lane = 16; lane < warp_lanes; ++lane)
    halves.address[lane] -= 68;  // lane 16 where lane 0 is, less 4
  halves.pattern = AccessPattern::scattered;
  CHECK(lanes_that_follow(halves) == 0xfffefffe);
  const AccessParts two(halves, 1, AccessKind::plain_read, false);
  REQUIRE(two.all().size() == 2);
  CHECK(two.all()[0].bytes == 64);
  CHECK(two.all()[1].address == 4092);
  CHECK(two.all()[1].by.lanes_at(4096) == 1u << 17);
  const AccessParts same(access_of(4, 4096, 0, 0xf0), 1, AccessKind::plain_read, false);
  CHECK(same.all()[0].by.lanes_at(4096) == 0xf0);
}

TEST_CASE("access sets: equal sets have one number") {
  AccessSets sets;
  const SetEntry a{.stamp = Stamp::of(1, 2, 3), .lanes = 0, .kind = AccessKind::plain_read};
  const SetEntry b{.stamp = Stamp::of(2, 2, 3), .lanes = 0, .kind = AccessKind::strong_write};
  const uint32_t one = sets.with(0, a, 0), both = sets.with(one, b, 4);
  CHECK(sets.with(0, a, 0) == one);
  CHECK(sets.with(one, b, 0) == both);
  CHECK(both != one);
  CHECK(sets.node(both).parent == one);
  CHECK(sets.node(both).saturated == 4);
  CHECK(sets.node(both).kinds == 0b1001);
  for (uint32_t i = 10; i < 5000; ++i)
    sets.with(one, {.stamp = Stamp::of(i, 2, 0), .lanes = 0, .kind = a.kind}, 0);
  CHECK(sets.node(both).entry == b);
  sets.clear();
  CHECK(sets.with(0, b, 0) == 1);
}

TEST_CASE("epochs: numbers from 1, all of them kept") {
  EpochTable table;
  for (uint32_t i = 1; i < 10000; ++i)
    REQUIRE(table.add({.block = i, .warp = i % 32, .tick = 2 * i, .part = 0}) == i);
  for (uint32_t i = 1; i < 10000; ++i) REQUIRE(table.at(i).tick == 2 * i);
  table.clear();
  CHECK(table.add({.block = 7, .warp = 0, .tick = 1, .part = 0}) == 1);
  CHECK(table.at(1).block == 7);
}

TEST_CASE("operation sets: one element is itself, several have a number") {
  OperationSets sets;
  const auto a = OperationMark::of(3, false), b = OperationMark::of(5, true);
  CHECK(sets.mark_of({a}) == a);
  const OperationMark both = sets.mark_of({a, b});
  CHECK(both.is_several());
  CHECK(sets.mark_of({a, b}) == both);
  CHECK(sets.newest(both) == 5);
  CHECK(sets.elements(both) == std::vector<OperationMark>{a, b});
  CHECK(sets.elements({}).empty());
  CHECK_FALSE(OperationMark::of(0, false).is_none());  // a write before all operations is a write
}

TEST_CASE("knowledge: joins, and shares what is equal") {
  Knowledge chain;
  std::vector<Knowledge> history;
  for (uint32_t i = 0; i < 2000; ++i) {
    history.push_back(chain);
    chain = chain.with(i, i + 1);
  }
  for (uint32_t i = 0; i < 2000; ++i) REQUIRE(chain.of(i) == i + 1);
  CHECK(chain.of(2000) == 0);
  CHECK(chain.of(1u << 30) == 0);
  CHECK(history[1000].of(999) == 1000);
  CHECK(history[1000].of(1000) == 0);
  CHECK(chain.joined(history[17]).is_same(chain));
  CHECK(history[17].joined(chain).is_same(chain));
  CHECK(chain.with(5, 2).is_same(chain));
  const Knowledge far = Knowledge().with(1u << 20, 9), both = far.joined(history[3]);
  CHECK(both.of(1u << 20) == 9);
  CHECK(both.of(2) == 3);
  CHECK(history[3].joined(far).of(2) == 3);
  CHECK(Knowledge().joined(far).is_same(far));
}

TEST_CASE("cells: runs of equal ones at every length") {
  for (size_t length = 1; length < 40; ++length) {
    std::vector<Cell> cells(50, cell_of(1));
    fill_cells(cells.data(), length, cell_of(2, 3));
    CHECK(equal_cells(cells.data(), cells.size()) == length);
    CHECK(equal_cells(cells.data(), length) == length);
    CHECK(equal_cells(cells.data() + length, cells.size() - length) == cells.size() - length);
  }
}

TEST_CASE("cells are as wide as the address and the bytes of an access allow") {
  CHECK(log_width_of(4096, 4096) == log_widest_cell);
  CHECK(log_width_of(4096, 128) == 7);
  CHECK(log_width_of(4096, 64) == 6);
  CHECK(log_width_of(4112, 512) == 4);
  CHECK(log_width_of(4100, 128) == 2);
  CHECK(log_width_of(4098, 64) == 1);
  CHECK(log_width_of(4097, 2) == 0);
}

TEST_CASE("transitions: cells in the known state change, up to the first other one") {
  const Cell before = cell_of(1, 0x501), after = cell_of(2, 0x602), other = cell_of(1, 0x502);
  Transition transition;
  std::vector<Cell> cells(40, before);
  transition.set(before, after);
  for (size_t length = 0; length < cells.size(); ++length) {
    std::fill(cells.begin(), cells.end(), before);
    cells[length] = other;
    CHECK(transition.apply(cells.data(), cells.size()) == length);
    CHECK(std::count(cells.begin(), cells.end(), after) == static_cast<std::ptrdiff_t>(length));
    CHECK(cells[length] == other);
  }
  transition.set_stamp(Transition::write, Stamp{0x603});
  cells[0] = before;
  CHECK(transition.apply(cells.data(), 1) == 1);
  CHECK(cells[0] == cell_of(2, 0x603));
}

TEST_CASE("transitions: with open lanes a word matches for each lane of its epoch, and may be kept") {
  Cell read = cell_of(1, 0x501);
  read.access = Stamp{0x700};
  Transition transition;
  transition.set(cell_of(1, 0x501), read);
  transition.open_lanes(Transition::write);
  transition.keep(Transition::write);
  Cell cell = cell_of(1, 0x577);
  REQUIRE(transition.apply(&cell, 1) == 1);
  CHECK(cell.write == Stamp{0x577});
  CHECK(cell.access == Stamp{0x700});
  for (Cell one : {cell_of(1, 0x601), cell_of(2, 0x501), cell_of(1, Stamp::set_bit | 0x501), cell}) {
    CHECK_FALSE(transition.matches(one));
    CHECK(transition.apply(&one, 1) == 0);
  }
}

TEST_CASE("shadow pages: alike until a part differs, then split to narrower cells") {
  ShadowPages pages(4096, 1 << 20);
  ShadowPage& page = pages.at(4096 + 5000);
  CHECK(&page == &pages.at(8192));
  CHECK(page.is_alike());
  CHECK(page.alike() == Cell{});
  page.set_all(cell_of(4), pages.memory());
  CHECK(page.is_alike());
  CHECK(page.log_width() == log_widest_cell);
  page.split_to(2, pages.memory());
  CHECK(page.is_alike());
  page.cells(8, pages.memory())[0] = cell_of(5);
  CHECK_FALSE(page.is_alike());
  CHECK(page.cell_bytes() == 4);
  page.split_to(0, pages.memory());
  CHECK(page.cell_bytes() == 1);
  for (uint32_t byte = 0; byte < ShadowPage::bytes; ++byte)
    REQUIRE(*page.cells(byte, pages.memory()) == cell_of(byte / 4 == 2 ? 5 : 4));
  page.split_to(1, pages.memory());
  CHECK(page.cell_bytes() == 1);
  const Cell* cells = page.cells(0, pages.memory());
  page.set_all({}, pages.memory());
  CHECK(page.log_width() == log_widest_cell);
  // What was given back is used again.
  ShadowPage& other = pages.at(4096);
  other.split_to(0, pages.memory());
  CHECK(other.cells(0, pages.memory()) == cells);
}
