#include "tools/gptlite/progress.h"

#include <algorithm>
#include <cstdio>
#include <ostream>

#include "dist/train/profile/wall_clock.h"

namespace tessera::gptlite {

Progress::Progress(std::ostream& out, bool is_terminal, int64_t first_step, int64_t steps)
    : out_(out), is_terminal_(is_terminal), first_(first_step), steps_(steps), next_line_(first_step + 1) {}

void Progress::step(int64_t done, double loss, double learning_rate,
                    std::optional<double> tokens_per_second) {
  const bool last = done == steps_;
  const double now = training::profile_seconds();
  if (is_terminal_ ? (now - last_draw_ < 0.1 && !last) : (done < next_line_ && !last)) return;
  last_draw_ = now;
  next_line_ = done + std::max<int64_t>(1, (steps_ - first_) / 20);

  char status[160];
  const int length =
      std::snprintf(status, sizeof status, "step %lld/%lld  loss %.4f  lr %.2e", static_cast<long long>(done),
                    static_cast<long long>(steps_), loss, learning_rate);
  if (tokens_per_second)
    std::snprintf(status + length, sizeof status - static_cast<size_t>(length), "  %.0f tokens/s",
                  *tokens_per_second);
  if (!is_terminal_) {
    out_ << status << std::endl;
    return;
  }
  constexpr size_t width = 24;
  const size_t filled = width * static_cast<size_t>(done) / static_cast<size_t>(std::max<int64_t>(steps_, 1));
  draw("[" + std::string(filled, '=') + std::string(width - filled, ' ') + "] " + status);
}

void Progress::draw(const std::string& text) {
  out_ << '\r' << text;
  if (text.size() < drawn_) out_ << std::string(drawn_ - text.size(), ' ');
  out_ << std::flush;
  drawn_ = text.size();
}

void Progress::line(const std::string& text) {
  if (is_terminal_ && drawn_ > 0) {
    draw("");
    out_ << '\r';
    drawn_ = 0;
  }
  out_ << text << std::endl;
}

void Progress::finish() {
  if (is_terminal_ && drawn_ > 0) out_ << std::endl;
  drawn_ = 0;
}

void Throughput::step(double tokens, double seconds, bool is_last) {
  constexpr int64_t warmup_steps = 5;
  const double rate = tokens / seconds;
  smoothed_ = steps_ == 0 ? rate : 0.9 * smoothed_ + 0.1 * rate;
  if (++steps_ <= warmup_steps && !is_last) return;
  tokens_ += tokens;
  seconds_ += seconds;
}

}  // namespace tessera::gptlite
