#include "dist/checkpoint/rank_agreement.h"

#include <cstring>
#include <exception>
#include <thread>

#include "tensor/memory/account.h"
#include "tensor/threads/parallel.h"

namespace tessera::dist {
namespace {

constexpr CallOptions options{.unit = "checkpoint", .traffic = Traffic::state};

Tensor bytes_of(const std::string& text) {
  const Tensor bytes = Tensor::empty({std::ssize(text)}, u8);
  if (!text.empty()) std::memcpy(bytes.raw_data(), text.data(), text.size());
  return bytes;
}

std::string text_in(const Tensor& bytes, int64_t begin, int64_t length) {
  if (length == 0) return "";
  return {static_cast<const char*>(bytes.raw_data()) + begin, static_cast<size_t>(length)};
}

}  // namespace

std::string broadcast_text(Communicator& ranks, const std::string& text, int root) {
  const Tensor length = Tensor::scalar<int64_t>(std::ssize(text));
  ranks.broadcast(length, root, options).wait();
  const int64_t n = length.item_i64();
  const Tensor bytes = ranks.rank() == root ? bytes_of(text) : Tensor::empty({n}, u8);
  if (n > 0) ranks.broadcast(bytes, root, options).wait();
  return text_in(bytes, 0, n);
}

std::vector<std::string> gather_texts(Communicator& ranks, const std::string& text) {
  const auto size = static_cast<size_t>(ranks.size());
  const Tensor lengths = Tensor::zeros({ranks.size()}, i64);
  ranks.all_gather(lengths, Tensor::from({static_cast<int64_t>(std::ssize(text))}), options).wait();
  // All texts go to rank 0; the other ranks receive none.
  std::vector<int64_t> sent(size, 0), received(size, 0);
  sent[0] = std::ssize(text);
  int64_t total = 0;
  for (size_t rank = 0; ranks.rank() == 0 && rank < size; ++rank)
    total += received[rank] = lengths.data<int64_t>()[rank];
  const Tensor all = Tensor::empty({total}, u8);
  ranks.all_to_all(all, received, bytes_of(text), sent, options).wait();
  std::vector<std::string> texts;
  int64_t begin = 0;
  for (size_t rank = 0; ranks.rank() == 0 && rank < size; begin += received[rank++])
    texts.push_back(text_in(all, begin, received[rank]));
  return texts;
}

void require_no_error(Communicator& ranks, const std::string& error) {
  const int64_t size = ranks.size();
  const Tensor first = Tensor::scalar<int64_t>(error.empty() ? size : ranks.rank());
  ranks.all_reduce(first, Reduction::min, options).wait();
  const int64_t rank = first.item_i64();
  if (rank == size) return;
  const std::string message = broadcast_text(ranks, error, static_cast<int>(rank));
  throw CheckpointError(size == 1 ? message : text("rank ", rank, ": ", message));
}

std::string error_text(FunctionRef<void()> body) {
  try {
    body();
    return "";
  } catch (const std::exception& error) {
    return error.what()[0] == '\0' ? "an error without a message" : error.what();
  }
}

void run_on_all(Communicator& ranks, FunctionRef<void()> body) {
  require_no_error(ranks, error_text(body));
}

void wait_for_all(Communicator& ranks, FunctionRef<bool(std::chrono::milliseconds)> is_finished) {
  constexpr std::chrono::milliseconds interval{200};
  for (bool finished = false;;) {
    finished = finished || is_finished(interval);
    const Tensor all = Tensor::scalar<int64_t>(finished);
    ranks.all_reduce(all, Reduction::min, options).wait();
    if (all.item_i64() == 1) return;
  }
}

void wait_for_all(Communicator& ranks, const std::future<void>& work) {
  wait_for_all(ranks, [&](std::chrono::milliseconds interval) {
    return work.wait_for(interval) == std::future_status::ready;
  });
}

void finish_on_all(Communicator& ranks, std::future<void>& work) {
  wait_for_all(ranks, work);
  run_on_all(ranks, [&] { work.get(); });
}

std::future<void> run_long(Communicator& ranks, FunctionRef<void()> body) {
  std::packaged_task<void()> task([&] { body(); });
  std::future<void> work = task.get_future();
  const std::jthread thread([&, account = current_account(), threads = num_threads()] {
    const AccountScope scope(account);
    set_num_threads(threads);
    task();
  });
  wait_for_all(ranks, work);
  return work;
}

void run_long_together(Communicator& ranks, FunctionRef<void()> body) {
  std::future<void> work = run_long(ranks, body);
  run_on_all(ranks, [&] { work.get(); });
}

}  // namespace tessera::dist
