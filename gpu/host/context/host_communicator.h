// The ranks of host devices: they meet in memory, where each shows the others its part.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"
#include "gpu/communicator.h"
#include "gpu/device.h"

namespace tandem::host {

// Thrown to a rank that stops waiting because another rank has failed or does not arrive.
class MeetingFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A barrier that all ranks pass before an operation of the group. Thread-safe.
class MeetingPoint {
 public:
  using Parts = std::array<TensorView, Communicator::kMaxRanks>;  // [ranks]

  explicit MeetingPoint(std::int32_t ranks) : ranks_(ranks) {}

  std::int32_t ranks() const { return ranks_; }
  // Waits for all ranks; returns their parts. Throws MeetingFailed.
  Parts meet(std::int32_t rank, const TensorView& part);
  // The rank cannot take part in `what`: all meetings fail until all ranks have called reset().
  void leave(std::int32_t rank, std::string_view what) noexcept;
  void reset(std::int32_t rank) noexcept;

 private:
  void break_up(std::string reason) noexcept;
  [[noreturn]] void fail() const;

  const std::int32_t ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Two alternate: the fastest rank may show its next part while the slowest still reads this one.
  std::array<Parts, 2> shown_;
  std::uint64_t turn_ = 0;
  std::uint32_t here_ = 0;  // one bit per rank
  std::uint32_t has_reset_ = 0;
  bool broken_ = false;
  std::string reason_;  // empty: there was no memory for the text
};

class HostCommunicator final : public Communicator {
 public:
  static Result<std::vector<std::unique_ptr<Communicator>>> connect(
      std::span<Device* const> devices);

  HostCommunicator(std::shared_ptr<MeetingPoint> point, std::int32_t rank, Device& device)
      : point_(std::move(point)), rank_(rank), device_(&device) {}

  std::int32_t rank() const override { return rank_; }
  std::int32_t size() const override { return point_->ranks(); }
  Result<Buffer> allocate(std::size_t bytes, std::string_view purpose) override {
    return device_->allocate(bytes, purpose);
  }
  Result<Buffer> allocate_words(std::size_t bytes, std::string_view purpose) override {
    return device_->allocate(bytes, purpose);
  }
  void leave(std::string_view what) noexcept override { point_->leave(rank_, what); }
  void reset() noexcept override { point_->reset(rank_); }

  MeetingPoint::Parts meet(const TensorView& part) { return point_->meet(rank_, part); }

 private:
  const std::shared_ptr<MeetingPoint> point_;
  const std::int32_t rank_;
  Device* const device_;
};

}  // namespace tandem::host
