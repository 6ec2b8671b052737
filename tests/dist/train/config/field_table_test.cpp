#include "dist/train/config/field_table.h"

#include <doctest/doctest.h>

#include "dist/train/config/arguments.h"
#include "tensor/error.h"
#include "tests/support/error_text.h"

#include <fstream>

#include "tests/support/temporary_folder.h"

using namespace tessera;
using namespace tessera::training;

namespace {

enum class Shape { round, square };
constexpr ChoiceName shapes[] = {{0, "round"}, {1, "square"}};

struct Part {
  double rate = 0.5;
};
struct Options {
  int64_t steps = 10;
  int ranks = 1;
  uint64_t seed = 42;
  bool quiet = false;
  std::string out = {};
  Shape shape = Shape::round;
  Part part = {};
};

const FieldTable<Options>& fields() {
  static const FieldTable<Part> part{{{"rate", "how fast", "", {.low = 0, .high = 1, .is_below_high = true}},
                                      [](Part& p) { return &p.rate; }}};
  static const FieldTable<Options> table =
      FieldTable<Options>{
          {{"steps", "how long", "steps", {.low = 1, .high = 1000}}, [](Options& o) { return &o.steps; }},
          {{"ranks", "how many"}, [](Options& o) { return &o.ranks; }},
          {{"seed", "of all draws"}, [](Options& o) { return &o.seed; }},
          {{"quiet", "print nothing"}, [](Options& o) { return &o.quiet; }},
          {{"out_folder", "where to"}, [](Options& o) { return &o.out; }},
          {{"shape", "which form"}, [](Options& o) { return ChoicePointer(&o.shape, shapes); }}}
          .include(
              part, +[](Options& o) -> Part& { return o.part; });
  return table;
}

std::string refusal(const std::string& name, const std::string& value) {
  Resolved<Options> options(fields());
  return message_of<ConfigError>([&] { options.set(name, value, {Source::flag, flag_of(name)}); });
}

Arguments apply(Resolved<Options>& options, std::vector<std::string> arguments) {
  return apply_arguments(options, "program", std::move(arguments));
}

}  // namespace

TEST_CASE("table of fields: each value knows what gave it") {
  Resolved<Options> options(fields());
  options.set("steps", "20", {Source::preset, "small"});
  const JsonDocument document = JsonDocument::parse("{\n\"rate\": 0.25, \"shape\": \"square\"}", "run.json");
  options.set_all(document.root());
  options.set("seed", "7", {Source::flag, "--seed"});
  options.change({Source::derived, "steps / 10"}, [](Options& o) { o.ranks = 2; });
  CHECK(options->steps == 20);
  CHECK(options->part.rate == 0.25);
  CHECK(options->shape == Shape::square);
  CHECK(options->seed == 7);
  CHECK(options->ranks == 2);
  CHECK(to_string(options.origin("steps")) == "preset small");
  CHECK(to_string(options.origin("rate")) == "file run.json:2");
  CHECK(to_string(options.origin("seed")) == "flag --seed");
  CHECK(to_string(options.origin("ranks")) == "derived: steps / 10");
  CHECK(to_string(options.origin("quiet")) == "default");
  CHECK(!options.is_given("quiet"));
  CHECK(explain(options.values()) ==
        "steps       20 steps  preset small\n"
        "ranks       2         derived: steps / 10\n"
        "seed        7         flag --seed\n"
        "quiet       false     default\n"
        "out_folder  none      default\n"
        "shape       square    file run.json:2\n"
        "rate        0.25      file run.json:2\n");
  CHECK(!contains(explain(options.values(), false), "quiet"));
}

TEST_CASE("table of fields: the JSON of a configuration reads back to the same values") {
  Resolved<Options> options(fields()), again(fields());
  options.change({Source::program, ""}, [](Options& o) {
    o.part.rate = 0.1 + 0.2;
    o.seed = (uint64_t{1} << 53) - 1;
    o.out = "a \"b\"\n\\";
    o.quiet = true;
  });
  const JsonDocument document = JsonDocument::parse(to_json(options.values()), "saved");
  again.set_all(document.root());
  CHECK(again->part.rate == 0.1 + 0.2);
  CHECK(again->seed == options->seed);
  CHECK(again->out == "a \"b\"\n\\");
  CHECK(again->quiet);
}

TEST_CASE("table of fields: bad values name the place, what is expected and what came, and change nothing") {
  CHECK(refusal("steps", "0") == "--steps: expected a whole number from 1 to 1000, got 0");
  CHECK(refusal("steps", "x") == "--steps: expected a whole number from 1 to 1000, got 'x'");
  CHECK(refusal("steps", "1.5") == "--steps: expected a whole number from 1 to 1000, got '1.5'");
  CHECK(refusal("rate", "1") == "--rate: expected a number of at least 0 and below 1, got 1");
  CHECK(refusal("rate", "nan") == "--rate: expected a number of at least 0 and below 1, got 'nan'");
  CHECK(refusal("quiet", "yes") == "--quiet: expected true or false, got 'yes'");
  CHECK(refusal("shape", "oval") == "--shape: expected round or square, got 'oval'");
  CHECK(refusal("seed", "-1") == "--seed: expected a whole number, got '-1'");
  CHECK(refusal("ranks", "3000000000") == "--ranks: expected a whole number, got '3000000000'");
  CHECK(refusal("step", "3") == "flag --step: there is no option 'step'; the nearest is 'steps'");
  CHECK(refusal("steps", "1e2") == "(nothing was thrown)");  // scientific notation for a count

  Resolved<Options> options(fields());
  CHECK_THROWS_AS(options.set("steps", "0", {Source::flag, "--steps"}), ConfigError);
  CHECK(options->steps == 10);
  CHECK(!options.is_given("steps"));
  const JsonDocument document = JsonDocument::parse("{\"steps\": 5000}", "run.json");
  CHECK(message_of<ConfigError>([&] { options.set_all(document.root()); }) ==
        "run.json:1: steps: expected a whole number from 1 to 1000, got 5000");
  CHECK(options->steps == 10);
  const JsonDocument unknown = JsonDocument::parse("{\n\"qiet\": true}", "run.json");
  CHECK(message_of<ConfigError>([&] { options.set_all(unknown.root()); }) ==
        "run.json:2: there is no option 'qiet'; the nearest is 'quiet'");
}

TEST_CASE("table of fields: flags of a command line") {
  Resolved<Options> options(fields());
  const Arguments parsed =
      apply(options, {"--steps", "30", "--quiet", "--rate=0.125", "--out-folder", "x y", "--explain"});
  CHECK(parsed.explain);
  CHECK(options->steps == 30);
  CHECK(options->quiet);
  CHECK(options->part.rate == 0.125);
  CHECK(options->out == "x y");
  CHECK(to_string(options.origin("rate")) == "flag --rate");
  apply(options, {"--quiet", "false"});
  CHECK(!options->quiet);
  const auto refused = [&](std::vector<std::string> arguments) {
    return message_of<ConfigError>([&] { apply(options, std::move(arguments)); });
  };
  CHECK(refused({"--step", "3"}) == "program: unexpected argument '--step'; the nearest is --steps");
  CHECK(refused({"word"}) == "program: unexpected argument 'word'");
  CHECK(refused({"--steps", "many"}) == "--steps: expected a whole number from 1 to 1000, got 'many'");
  CHECK(contains(refused({"--steps"}), "--steps"));
  const std::string help = apply(options, {"--help"}).help;
  for (const char* part : {"--steps", "how long", "default: 10", "round or square", "--config", "--explain"})
    CHECK_MESSAGE(contains(help, part), help);
}

TEST_CASE("table of fields: a file of values, and flags that take precedence") {
  const TemporaryFolder folder;
  const std::string path = folder / "run.json";
  std::ofstream(path) << "{\n  \"steps\": 40, // of the optimizer\n  \"ranks\": 2,\n}\n";
  Resolved<Options> options(fields());
  apply(options, {"--ranks", "4", "--config", path});
  CHECK(options->steps == 40);
  CHECK(options->ranks == 4);
  CHECK(to_string(options.origin("steps")) == "file " + path + ":2");
  CHECK(to_string(options.origin("ranks")) == "flag --ranks");
  CHECK(contains(message_of<ConfigError>([&] {
                   apply(options, {"--config", folder / "none"});
                 }),
                 "there is none"));
}

TEST_CASE("table of fields: a record of a checkpoint gives back what it keeps, and nothing else") {
  struct Run {
    int64_t layers = 4, steps = 10, interval = 5;
  };
  static const FieldTable<Run> table{
      {{"layers", "of the model", "", {.low = 1, .high = 100}, OnResume::same},
       [](Run& r) { return &r.layers; }},
      {{"steps", "how long", "", {.low = 1}, OnResume::may_differ}, [](Run& r) { return &r.steps; }},
      {{"interval", "how often"}, [](Run& r) { return &r.interval; }}};
  Resolved<Run> saved(table), loaded(table);
  saved.set("layers", "6", {Source::flag, "--layers"});
  saved.set("interval", "3", {Source::flag, "--interval"});
  auto record = saved.record();
  CHECK(record == std::map<std::string, std::string>{{"layers", "6"}, {"steps", "10"}});
  loaded.restore(record, "out/step-3");
  CHECK(loaded->layers == 6);
  CHECK(loaded->interval == 5);
  CHECK(to_string(loaded.origin("layers")) == "checkpoint out/step-3");
  CHECK(!loaded.is_given("interval"));

  Resolved<Run> resumed = loaded;
  resumed.set("steps", "20", {Source::flag, "--steps"});
  resumed.require_same(loaded, "out/step-3");
  resumed.set("layers", "8", {Source::flag, "--layers"});
  const std::string different =
      message_of<CheckpointError>([&] { resumed.require_same(loaded, "out/step-3"); });
  for (const char* part : {"out/step-3", "layers 6", "give 8"})
    CHECK_MESSAGE(contains(different, part), different);

  record["layers"] = "101";
  record["steps"] = "12";
  CHECK(contains(message_of<CheckpointError>([&] { loaded.restore(record, "out/step-3"); }),
                 "out/step-3: 'layers': expected a whole number from 1 to 100, got 101"));
  CHECK(loaded->steps == 10);
  record.erase("layers");
  CHECK(contains(message_of<CheckpointError>([&] { loaded.restore(record, "out/step-3"); }),
                 "out/step-3: expected the field 'layers', found none"));
}

TEST_CASE("table of fields: an empty text is empty, and a flag of true or false may stand alone") {
  Resolved<Options> options(fields());
  options.set("out_folder", "here", {Source::program});
  apply(options, {"--out-folder", "", "--quiet"});
  CHECK(options->out.empty());
  CHECK(options->quiet);
}

TEST_CASE("table of fields: the reference page has a row for each field") {
  const Resolved<Options> options(fields());
  const std::string page = reference_page(options.values());
  CHECK(contains(page,
                 "| `steps` | `--steps` | `10` | a whole number from 1 to 1000, in steps | how long |\n"));
  CHECK(contains(page, "| `out_folder` | `--out-folder` | none | a text | where to |\n"));
}

TEST_CASE("table of fields: a choice that a file may take the place of") {
  struct Drawing {
    Shape shape = Shape::square;
    std::string file = {};
  };
  const FieldTable<Drawing> table{
      {{"shape", "which form"}, [](Drawing& d) { return ChoicePointer(&d.shape, shapes, &d.file, ".svg"); }}};
  Resolved<Drawing> drawing(table);
  CHECK(drawing.values()[0].value == "square");
  drawing.set("shape", "a/mine.svg", {Source::flag, "--shape"});
  CHECK(drawing->file == "a/mine.svg");
  CHECK(drawing->shape == Shape::square);
  CHECK(drawing.values()[0].value == "a/mine.svg");
  CHECK(drawing.values()[0].json == "\"a/mine.svg\"");
  CHECK(drawing.values()[0].expected == "round or square, or a file FILE.svg");
  drawing.set("shape", "round", {Source::flag, "--shape"});
  CHECK(drawing->file.empty());
  CHECK(drawing->shape == Shape::round);
  CHECK_THROWS_WITH_AS(drawing.set("shape", "mine.png", {Source::flag, "--shape"}),
                       "--shape: expected round or square, or a file FILE.svg, got 'mine.png'", ConfigError);
}
