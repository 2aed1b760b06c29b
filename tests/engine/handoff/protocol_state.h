// The state of the handoff protocol's model (protocol_model.h): the words of all parties, as
// bytes.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "tests/engine/handoff/protocol_model.h"

namespace tandem::protocol {

using u8 = std::uint8_t;

inline constexpr int kGroups = kRequests;  // per step: its cold requests, in order
inline constexpr int kStepsUnderWay = 2;
inline constexpr u8 kGarbage = 255;

enum class Phase : u8 { absent, active, replay, answered };
enum class Kind : u8 { none, resident, cold, wait };
enum class At : u8 { gone, dead, killed, idle, in_job, rung, has_x, wrote_y };
enum class Op : u8 { wait, copy, ring, lora, accept, add };
enum class Call : u8 { none, gpu, cpu, dropped };  // a ticket

struct Request {
  Phase phase;
  u8 enqueued, confirmed;  // numbers of steps
  u8 load;                 // number of finished actions of its load
};

struct Step {
  u8 present, ended, first_job, workers;
  std::array<Kind, kRequests> kind;
  std::array<std::array<u8, kLayers>, kRequests> added;
  u8 wrong;      // bits of requests with a wrong delta
  u8 timed_out;  // bits of groups
  u8 discard;    // bits of requests that were void in the previous step
};

struct Worker {
  At at;
  u8 next, group, held, progress, stalled, condemned;  // condemned: sent SIGKILL, but not dead yet
  std::array<u8, kGroups> done;
};

struct JobWords {
  std::array<u8, kGroups> request;  // index plus one; 0: no group
  u8 workers;
};

// Bytes only, so that states can be compared and hashed bytewise.
struct State {
  std::array<Request, kRequests> requests;
  std::array<u8, kRequests> load_queue;                           // index plus one
  std::array<std::array<u8, kLayers>, kRequests> weights, ready;  // generations by slot
  u8 broken;                                                      // HandoffState::broken
  u8 box_broken;                                                  // the engine's view of it
  u8 published;
  std::array<JobWords, kMostJobs> jobs;
  std::array<u8, kGroups> x, doorbell;  // numbers of jobs
  std::array<Call, kGroups> doorbell_call;
  std::array<std::array<u8, kMostWorkers>, kGroups> y;  // parts of its columns
  std::array<Step, kStepsUnderWay> steps;
  u8 layer;
  Op op;
  u8 group;
  std::array<Call, kGroups> tickets;
  std::array<Worker, kMostWorkers> workers;
  u8 faults;
};
static_assert(std::has_unique_object_representations_v<State>);

}  // namespace tandem::protocol
