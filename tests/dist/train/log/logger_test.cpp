#include "dist/train/log/logger.h"

#include <doctest/doctest.h>

#include <sstream>
#include <thread>
#include <vector>

#include "tests/support/environment.h"
#include "tests/support/error_text.h"

using namespace tessera;
using training::LogFilter;
using training::Logger;
using training::LogLevel;

namespace {

std::string refusal(const std::string& rules) {
  return message_of<ConfigError>([&] { LogFilter::parse(rules, "TESSERA_LOGS"); });
}

/// What a logger with this filter writes of one message of each component and level.
std::string written(const std::string& rules) {
  std::ostringstream out;
  const Logger log(training::stream_sink(out), LogFilter::parse(rules));
  for (const char* component : {"dist.checkpoint", "dist.comm", "train.step"}) {
    log.debug(component, "d");
    log.info(component, "i", 1);
    log.warning(component, "w");
  }
  return out.str();
}

}  // namespace

TEST_CASE("log: without rules info and above are written, of every component") {
  CHECK(
      written("") ==
      "[info] dist.checkpoint: i1\n[warning] dist.checkpoint: w\n[info] dist.comm: i1\n[warning] dist.comm: "
      "w\n[info] train.step: i1\n[warning] train.step: w\n");
}

TEST_CASE("log: a named component is silenced, others log") {
  CHECK(written("-dist.checkpoint") ==
        "[info] dist.comm: i1\n[warning] dist.comm: w\n[info] train.step: i1\n[warning] train.step: w\n");
}

TEST_CASE("log: a rule holds for the components below it, and the longest name decides") {
  CHECK(written("-dist,+train") == "[debug] train.step: d\n[info] train.step: i1\n[warning] train.step: w\n");
  CHECK(written("-dist,dist.comm=warning,-train") == "[warning] dist.comm: w\n");
  CHECK(written("dist.comm=debug,-all") ==
        "[debug] dist.comm: d\n[info] dist.comm: i1\n[warning] dist.comm: w\n");
  CHECK(LogFilter::parse("-dist").level("distance") == LogLevel::info);
  CHECK(LogFilter::parse("-dist").level("dist") == LogLevel::off);
  CHECK(LogFilter::parse("+train=error").level("train.step") == LogLevel::error);
  CHECK(LogFilter::parse(" -a , +b ").level("b") == LogLevel::debug);
}

TEST_CASE("log: a wrong rule is named") {
  CHECK(refusal("+train,dist") == "TESSERA_LOGS: 'dist': expected +dist, -dist or dist=level");
  CHECK(
      refusal("train=warn") ==
      "TESSERA_LOGS: 'train=warn': expected a level, one of debug, info, warning, error and off, got 'warn'");
  CHECK(contains(refusal("train=warnin"), "; the nearest is 'warning'"));
  CHECK(contains(refusal("+train,,-dist"), "TESSERA_LOGS: '': expected a component"));
  CHECK(contains(refusal("+train,"), "expected a rule after the last comma"));
  CHECK(contains(refusal("-train=info"), "'-train=info': expected no level after -"));
  CHECK(contains(refusal("+tr ain"),
                 "'+tr ain': expected a component, of letters, digits, _ and dots, got 'tr ain'"));
  CHECK(contains(refusal("+.train"), "got '.train'"));
  CHECK(contains(refusal("+a,-b,-a"), "'-a': expected one rule for 'a', got two"));
}

TEST_CASE("log: the environment gives the rules, and is named where they are wrong") {
  {
    const Environment unset("TESSERA_LOGS", nullptr);
    CHECK(LogFilter::from_environment().level("train") == LogLevel::info);
  }
  {
    const Environment set("TESSERA_LOGS", "-dist.checkpoint,+train=debug");
    CHECK(LogFilter::from_environment().level("dist.checkpoint") == LogLevel::off);
    CHECK(LogFilter::from_environment().level("train.step") == LogLevel::debug);
  }
  const Environment wrong("MY_LOGS", "train");
  CHECK(
      contains(message_of<ConfigError>([] { LogFilter::from_environment("MY_LOGS"); }), "MY_LOGS: 'train'"));
}

TEST_CASE("log: without a sink nothing is enabled; copies share one, from any thread") {
  CHECK(!Logger().is_enabled(LogLevel::error, "train"));
  Logger().error("train", "goes nowhere");
  CHECK(message_of<ConfigError>([] { const Logger none{training::LogSink()}; }) ==
        "Logger: expected a function that takes messages, got none");
  int64_t count = 0;  // not atomic: calls come one at a time
  const Logger log([&](const training::LogRecord&) { ++count; });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([log] {
      for (int k = 0; k < 1000; ++k) log.info("train", k);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(count == 4000);
  CHECK(!log.is_enabled(LogLevel::off, "train"));
}
