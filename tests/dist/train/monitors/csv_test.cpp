#include "dist/train/monitors/csv.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "tensor/error.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

using namespace tessera;
using training::CsvMonitor;
using training::MetricValue;
using Metrics = std::vector<MetricValue>;
using Table = std::vector<std::vector<std::string>>;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The records of a file by RFC 4180, with lines that end in "\n". A state machine over the whole file.
Table read_csv(const std::string& path) {
  enum class State { field, quoted, quote_in_quoted };
  Table table;
  std::vector<std::string> record{""};
  State state = State::field;
  for (const char c : content_of(path)) {
    if (state == State::quoted) {
      if (c == '"')
        state = State::quote_in_quoted;
      else
        record.back() += c;
    } else if (c == '"') {
      if (state == State::quote_in_quoted) record.back() += '"';
      state = State::quoted;
    } else if (c == ',') {
      record.emplace_back();
      state = State::field;
    } else if (c == '\n') {
      table.push_back(record);
      record = {""};
      state = State::field;
    } else {
      record.back() += c;
    }
  }
  CHECK(record == std::vector<std::string>{""});  // the last line is ended
  return table;
}

}  // namespace

TEST_CASE("csv: a column for each name, a row for each call") {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.csv";
  CsvMonitor monitor(path);
  monitor.begin({.name = "run", .configuration = {{"lr", "1"}}});
  CHECK(content_of(path) == "step\n");
  monitor.scalars(1, Metrics{{"loss", 2.5}, {"lr", 0.001}});
  monitor.scalars(2, Metrics{{"lr", 0.002}, {"loss", 2.25}});  // in another order
  monitor.scalars(3, Metrics{{"loss", 2}});
  monitor.end();
  CHECK(content_of(path) == "step,loss,lr\n1,2.5,0.001\n2,2.25,0.002\n3,2,\n");
}

TEST_CASE("csv: a name that appears later adds a column with empty fields in earlier rows") {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.csv";
  CsvMonitor monitor(path);
  monitor.begin({});
  monitor.scalars(1, Metrics{{"loss", 3}});
  monitor.scalars(2, Metrics{{"loss", 2}});
  monitor.scalars(2, Metrics{{"val, \"loss\"\nof all", 2.5}, {"accuracy", 0.5}});
  monitor.scalars(3, Metrics{{"loss", 1}, {"later", 7}});
  CHECK(read_csv(path) == Table{{"step", "loss", "val, \"loss\"\nof all", "accuracy", "later"},
                                {"1", "3", "", "", ""},
                                {"2", "2", "", "", ""},
                                {"2", "", "2.5", "0.5", ""},
                                {"3", "1", "", "", "7"}});
}

TEST_CASE("csv: names with commas, quotes and line ends are quoted") {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.csv";
  CsvMonitor monitor(path);
  monitor.begin({});
  monitor.scalars(1, Metrics{{"a,b", 1}, {"c\"d", 2}, {"e\r\nf", 3}, {"\"", 4}, {" g ", 5}});
  CHECK(content_of(path) == "step,\"a,b\",\"c\"\"d\",\"e\r\nf\",\"\"\"\", g \n1,1,2,3,4,5\n");
  CHECK(read_csv(path).at(0) == std::vector<std::string>{"step", "a,b", "c\"d", "e\r\nf", "\"", " g "});
}

TEST_CASE("csv: numbers are read back as the same doubles, also those that are not finite") {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.csv";
  CsvMonitor monitor(path);
  monitor.begin({});
  const std::vector<double> values{0.1,    1.0 / 3,  -1e-300,  1.7976931348623157e308,
                                   5e-324, infinity, -infinity};
  for (size_t i = 0; i < values.size(); ++i)
    monitor.scalars(static_cast<int64_t>(i), Metrics{{"x", values[i]}});
  monitor.scalars(99, Metrics{{"x", std::nan("")}});
  const Table table = read_csv(path);
  REQUIRE(table.size() == values.size() + 2);
  for (size_t i = 0; i < values.size(); ++i)
    CHECK(std::strtod(table[i + 1][1].c_str(), nullptr) == values[i]);
  CHECK(table.back()[1] == "nan");
}

TEST_CASE("csv: a resumed run continues the table after the step of the checkpoint") {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.csv";
  {
    CsvMonitor monitor(path);
    monitor.begin({});
    for (int step = 1; step <= 4; ++step) monitor.scalars(step, Metrics{{"a,\nb", 0.5 * step}});
  }
  SUBCASE("later rows are dropped, and new columns are added") {
    CsvMonitor monitor(path);
    monitor.begin({.resume_step = 2});
    CHECK(read_csv(path) == Table{{"step", "a,\nb"}, {"1", "0.5"}, {"2", "1"}});
    monitor.scalars(3, Metrics{{"a,\nb", 9}});
    monitor.scalars(4, Metrics{{"new", 8}});
    CHECK(read_csv(path) ==
          Table{{"step", "a,\nb", "new"}, {"1", "0.5", ""}, {"2", "1", ""}, {"3", "9", ""}, {"4", "", "8"}});
  }
  SUBCASE("a row that a kill cut off is dropped, though its step would be kept") {
    std::ofstream(path, std::ios::app) << "5,1.2";
    CsvMonitor monitor(path);
    monitor.begin({.resume_step = 5});
    monitor.scalars(6, Metrics{{"a,\nb", 6}});
    const Table table = read_csv(path);
    REQUIRE(table.size() == 6);
    CHECK(table[4] == std::vector<std::string>{"4", "2"});
    CHECK(table[5] == std::vector<std::string>{"6", "6"});
  }
  SUBCASE("a new run replaces the table") {
    CsvMonitor monitor(path);
    monitor.begin({});
    monitor.scalars(1, Metrics{{"c", 1}});
    CHECK(content_of(path) == "step,c\n1,1\n");
  }
}

TEST_CASE("csv: a run resumes without an earlier file, and with one that has no complete line") {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.csv";
  SUBCASE("no file") {}
  SUBCASE("a cut-off first line") {
    folder.write("metrics.csv", "step,lo");
  }
  CsvMonitor monitor(path);
  monitor.begin({.resume_step = 3});
  monitor.scalars(4, Metrics{{"loss", 1}});
  CHECK(content_of(path) == "step,loss\n4,1\n");
}

TEST_CASE("csv: a file to continue that is no such table is an error with path and line") {
  const TemporaryFolder folder;
  const auto message = [&](const char* content) {
    CsvMonitor monitor(folder.write("metrics.csv", content));
    return message_of<DataError>([&] { monitor.begin({.resume_step = 9}); });
  };
  const std::string path = folder / "metrics.csv";
  CHECK(contains(message("time,loss\n"), path + ":1: expected the first column to be 'step', got 'time'"));
  CHECK(contains(message("step,a,a\n"), path + ":1: expected every column once, got 'a' twice"));
  CHECK(contains(message("step,\"a\nb\"\n1,2\n2,3,4\n"), path + ":4: expected 2 fields, got 3"));
  CHECK(contains(message("step,a\n1,2\nx,3\n"), path + ":3: expected a step, got 'x'"));
}

TEST_CASE("csv: what cannot be written is an error that names the file or the metric") {
  const TemporaryFolder folder;
  const std::string path = folder / "missing/metrics.csv";
  CsvMonitor unwritable(path);
  CHECK(contains(message_of<ConfigError>([&] { unwritable.begin({}); }),
                 path + ": cannot open for writing: No such file"));
  CsvMonitor monitor(folder / "metrics.csv");
  CHECK_THROWS_AS(monitor.scalars(1, Metrics{{"a", 1}}), ConfigError);
  monitor.begin({});
  CHECK(contains(message_of<ConfigError>([&] {
                   monitor.scalars(1, Metrics{{"a", 1}, {"a", 2}});
                 }),
                 "'a' twice"));
  CHECK_THROWS_AS(monitor.scalars(1, Metrics{{"step", 1}}), ConfigError);
  CHECK(content_of(folder / "metrics.csv") == "step\n");
}
