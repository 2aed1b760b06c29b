#include "shm/mailbox.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "shm/futex.h"

namespace tandem {
namespace {

constexpr std::uint64_t kPage = 4096;

constexpr std::uint64_t to_page(std::uint64_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

// The greatest region there can be: every sum and product below stays far from overflow.
static_assert(std::uint64_t{kMaxMailboxRows} * kMaxMailboxWidth * 4 +
                  std::uint64_t{kMaxMailboxRows} * kMaxMailboxRank * kMaxModulesOfJob * 4 *
                      kNumVPlanes <
              std::uint64_t{1} << 48);

Status check_field(const char* name, std::uint32_t value, std::uint32_t most) {
  if (value >= 1 && value <= most) return {};
  return invalid("mailbox: {} is {}, not within 1 to {}", name, value, most);
}

// One field of a header that open() reads, against what the shape says it must be.
Status check_offset(const char* name, std::uint64_t value, std::uint64_t expected) {
  if (value == expected) return {};
  return invalid("{} is {} where the shape puts it at {}: the header is damaged", name, value,
                 expected);
}

// The parts of a header that say what it is, both headers alike.
template <typename Header>
Status check_identity(const Header& header, const ShmRegion& region, std::uint32_t magic) {
  // acquire: pairs with the release in publish_header(), which comes after all of the header.
  const std::uint32_t version = header.version.load(std::memory_order_acquire);
  if (version == 0) {
    return error(StatusCode::unavailable, "not ready: its engine is still making it");
  }
  if (header.magic != magic) {
    return invalid("not a mailbox: it begins with {:#010x} instead of {:#010x}", header.magic,
                   magic);
  }
  if (version != kMailboxVersion) {
    return invalid("a mailbox of version {}; this program knows version {}: run the engine's own",
                   version, kMailboxVersion);
  }
  if (header.bytes != region.bytes()) {
    return invalid("its header speaks of {} bytes and the region has {}", header.bytes,
                   region.bytes());
  }
  return {};
}

template <typename Header>
Result<const Header*> header_of(const ShmRegion& region) {
  if (region.bytes() >= sizeof(Header)) return reinterpret_cast<const Header*>(region.data());
  return invalid("{} bytes are too few for a mailbox's header", region.bytes());
}

Result<MailboxShape> read_inbox(const ShmRegion& region) {
  TANDEM_ASSIGN(const InboxHeader* header, header_of<InboxHeader>(region));
  TANDEM_TRY(check_identity(*header, region, kInboxMagic));
  return MailboxShape{header->dtype,  header->num_seats, header->max_rows,
                      header->max_in, header->max_out,   header->max_rank};
}

Status check_inbox(const ShmRegion& region, const MailboxLayout& layout) {
  const InboxHeader& header = *reinterpret_cast<const InboxHeader*>(region.data());
  TANDEM_TRY(check_offset("bytes", header.bytes, layout.inbox_bytes));
  TANDEM_TRY(check_offset("bells", header.bells, layout.bells));
  TANDEM_TRY(check_offset("jobs", header.jobs, layout.jobs));
  TANDEM_TRY(check_offset("group_jobs", header.group_jobs, layout.group_jobs));
  return check_offset("x", header.x, layout.x);
}

Status check_outbox(const ShmRegion& region, const MailboxShape& shape,
                    const MailboxLayout& layout) {
  TANDEM_ASSIGN(const OutboxHeader* header, header_of<OutboxHeader>(region));
  TANDEM_TRY(check_identity(*header, region, kOutboxMagic));
  if (header->num_seats != shape.num_seats) {
    return invalid("it has {} seats and its inbox {}: they are not a pair", header->num_seats,
                   shape.num_seats);
  }
  TANDEM_TRY(check_offset("bytes", header->bytes, layout.outbox_bytes));
  TANDEM_TRY(check_offset("seats", header->seats, layout.seats));
  TANDEM_TRY(check_offset("v", header->v, layout.v));
  return check_offset("y", header->y, layout.y);
}

// release: pairs with the acquire in check_identity(), which then sees the whole header.
template <typename Header>
void publish_header(Header& header) {
  header.version.store(kMailboxVersion, std::memory_order_release);
}

void write_header(OutboxHeader& outbox, const MailboxShape& shape, const MailboxLayout& layout) {
  outbox.magic = kOutboxMagic;
  outbox.num_seats = shape.num_seats;
  outbox.bytes = layout.outbox_bytes;
  outbox.seats = layout.seats;
  outbox.v = layout.v;
  outbox.y = layout.y;
  publish_header(outbox);
}

// Words of a description, which a reader that is too late may read while they are overwritten: it
// finds that out afterwards, by the job's sequence.
constexpr std::size_t kGroupJobWords = sizeof(GroupJob) / sizeof(std::uint64_t);
static_assert(sizeof(GroupJob) % sizeof(std::uint64_t) == 0);
static_assert(alignof(GroupJob) >= std::atomic_ref<std::uint64_t>::required_alignment);
static_assert(std::is_trivially_copyable_v<GroupJob>);

void store_words(GroupJob& to, const GroupJob& from) {
  std::uint64_t words[kGroupJobWords];
  std::memcpy(words, &from, sizeof words);
  auto* const target = reinterpret_cast<std::uint64_t*>(&to);
  for (std::size_t i = 0; i < kGroupJobWords; ++i) {
    std::atomic_ref(target[i]).store(words[i], std::memory_order_relaxed);
  }
}

void load_words(GroupJob& to, GroupJob& from) {
  std::uint64_t words[kGroupJobWords];
  auto* const source = reinterpret_cast<std::uint64_t*>(&from);
  for (std::size_t i = 0; i < kGroupJobWords; ++i) {
    words[i] = std::atomic_ref(source[i]).load(std::memory_order_relaxed);
  }
  std::memcpy(&to, words, sizeof words);
}

constexpr std::uint64_t all_seats(std::uint32_t num_seats) {
  return num_seats >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << num_seats) - 1;
}

// What the offsets in a group's job lead to lies within the mailbox.
void check_group(const MailboxShape& shape, const GroupJob& job) {
  TANDEM_CHECK(job.group < kMaxColdGroups, "group {}", job.group);
  TANDEM_CHECK(job.first_row <= shape.max_rows && job.rows <= shape.max_rows - job.first_row,
               "rows {} + {} of {}", job.first_row, job.rows, shape.max_rows);
  TANDEM_CHECK(job.in <= shape.max_in && job.out <= shape.max_out, "{} x {} of {} x {}", job.in,
               job.out, shape.max_in, shape.max_out);
  TANDEM_CHECK(job.num_modules <= kMaxModulesOfJob, "{} modules", job.num_modules);
  TANDEM_CHECK(job.rank_columns <= shape.max_rank * kMaxModulesOfJob, "{} columns of v",
               job.rank_columns);
  TANDEM_CHECK((job.workers & ~all_seats(shape.num_seats)) == 0, "workers {:#x} of {}", job.workers,
               shape.num_seats);
  for (std::uint32_t m = 0; m < job.num_modules; ++m) {
    const JobMatrix& matrix = job.modules[m];
    TANDEM_CHECK(matrix.rank <= shape.max_rank, "rank {} of {}", matrix.rank, shape.max_rank);
    TANDEM_CHECK(matrix.column <= job.out && matrix.out <= job.out - matrix.column,
                 "columns {} + {} of {}", matrix.column, matrix.out, job.out);
  }
}

}  // namespace

Result<MailboxLayout> layout_of(const MailboxShape& shape) {
  if (shape.dtype != DType::f32 && shape.dtype != DType::f16 && shape.dtype != DType::bf16) {
    return invalid("mailbox: dtype {} is none of activations", static_cast<int>(shape.dtype));
  }
  TANDEM_TRY(check_field("num_seats", shape.num_seats, kMaxSeats));
  TANDEM_TRY(check_field("max_rows", shape.max_rows, kMaxMailboxRows));
  TANDEM_TRY(check_field("max_in", shape.max_in, kMaxMailboxWidth));
  TANDEM_TRY(check_field("max_out", shape.max_out, kMaxMailboxWidth));
  TANDEM_TRY(check_field("max_rank", shape.max_rank, kMaxMailboxRank));
  const std::uint64_t rows = shape.max_rows;
  const std::uint64_t element = size_of(shape.dtype);
  MailboxLayout layout;
  layout.bells = sizeof(InboxHeader);
  layout.jobs = layout.bells + kMaxColdGroups * sizeof(Bell);
  layout.group_jobs = layout.jobs + kNumJobs * sizeof(Job);
  layout.x = to_page(layout.group_jobs + kNumGroupJobs * sizeof(GroupJob));
  layout.inbox_bytes = layout.x + rows * shape.max_in * element;
  layout.seats = sizeof(OutboxHeader);
  layout.v = to_page(layout.seats + shape.num_seats * sizeof(Seat));
  layout.v_plane_bytes = to_page(rows * shape.max_rank * kMaxModulesOfJob * sizeof(float));
  layout.y = layout.v + kNumVPlanes * layout.v_plane_bytes;
  layout.outbox_bytes = layout.y + rows * shape.max_out * element;
  return layout;
}

Mailbox::Mailbox(const MailboxShape& shape, const MailboxLayout& layout, ShmRegion inbox,
                 ShmRegion outbox)
    : shape_(shape), inbox_(std::move(inbox)), outbox_(std::move(outbox)) {
  // From the layout, never from a header: workers may write into the outbox's at any time.
  bells_ = reinterpret_cast<Bell*>(inbox_.data() + layout.bells);
  jobs_ = reinterpret_cast<Job*>(inbox_.data() + layout.jobs);
  group_jobs_ = reinterpret_cast<GroupJob*>(inbox_.data() + layout.group_jobs);
  x_ = inbox_.data() + layout.x;
  seats_ = reinterpret_cast<Seat*>(outbox_.data() + layout.seats);
  v_ = reinterpret_cast<float*>(outbox_.data() + layout.v);
  v_plane_ = layout.v_plane_bytes / sizeof(float);
  y_ = outbox_.data() + layout.y;
}

Result<Mailbox> Mailbox::create(const MailboxShape& shape, int node) {
  TANDEM_ASSIGN(const MailboxLayout layout, layout_of(shape));
  TANDEM_ASSIGN(ShmRegion in, ShmRegion::create("inbox", layout.inbox_bytes, node));
  TANDEM_ASSIGN(ShmRegion out, ShmRegion::create("outbox", layout.outbox_bytes, node));

  Mailbox mailbox(shape, layout, std::move(in), std::move(out));
  auto& inbox = *new (mailbox.inbox_.data()) InboxHeader{};
  for (int i = 0; i < kMaxColdGroups; ++i) new (&mailbox.bells_[i]) Bell{};
  for (std::uint64_t i = 0; i < kNumJobs; ++i) new (&mailbox.jobs_[i]) Job{};
  inbox.magic = kInboxMagic;
  inbox.dtype = shape.dtype;
  inbox.num_seats = shape.num_seats;
  inbox.max_rows = shape.max_rows;
  inbox.max_in = shape.max_in;
  inbox.max_out = shape.max_out;
  inbox.max_rank = shape.max_rank;
  inbox.node = node;
  inbox.bytes = layout.inbox_bytes;
  inbox.pid = static_cast<std::uint32_t>(::getpid());
  inbox.bells = layout.bells;
  inbox.jobs = layout.jobs;
  inbox.group_jobs = layout.group_jobs;
  inbox.x = layout.x;

  auto& outbox = *new (mailbox.outbox_.data()) OutboxHeader{};
  for (std::uint32_t i = 0; i < shape.num_seats; ++i) new (&mailbox.seats_[i]) Seat{};
  write_header(outbox, shape, layout);
  publish_header(inbox);
  return mailbox;
}

Result<Mailbox> Mailbox::open(const std::string& inbox, const std::string& outbox) {
  TANDEM_ASSIGN(ShmRegion in, ShmRegion::open(inbox, ShmRegion::Access::read_only));
  TANDEM_ASSIGN(ShmRegion out, ShmRegion::open(outbox, ShmRegion::Access::read_write));
  const Result<MailboxShape> shape = read_inbox(in);
  if (!shape) return shape.status().with_context("inbox " + inbox);
  const Result<MailboxLayout> layout = layout_of(*shape);
  if (!layout) return layout.status().with_context("inbox " + inbox);
  TANDEM_TRY(check_inbox(in, *layout).with_context("inbox " + inbox));
  TANDEM_TRY(check_outbox(out, *shape, *layout).with_context("outbox " + outbox));
  return Mailbox(*shape, *layout, std::move(in), std::move(out));
}

std::byte* Mailbox::x_of(std::uint32_t first_row) const {
  return x_ + std::uint64_t{first_row} * shape_.max_in * size_of(shape_.dtype);
}

float* Mailbox::v_of(std::uint32_t first_row) const {
  return v_ + std::uint64_t{first_row} * shape_.max_rank * kMaxModulesOfJob;
}

std::byte* Mailbox::y_of(std::uint32_t first_row) const {
  return y_ + std::uint64_t{first_row} * shape_.max_out * size_of(shape_.dtype);
}

void Mailbox::make_room(std::uint64_t sequence, std::uint32_t num_groups) {
  const std::uint64_t end = next_group_ + num_groups;
  const std::uint64_t first_kept = end > kNumGroupJobs ? end - kNumGroupJobs : 0;
  // All jobs in the ring are within kNumJobs of the oldest, also when sequences leap.
  const std::uint64_t last = std::min(sequence, oldest_job_ + kNumJobs);
  for (std::uint64_t each = oldest_job_; each < last; ++each) {
    Job& old = job(each);
    if (old.sequence.load(std::memory_order_relaxed) != each) continue;
    const bool keeps_groups =
        std::atomic_ref(old.first_group).load(std::memory_order_relaxed) >= first_kept;
    if (keeps_groups && sequence - each < kNumJobs) {
      oldest_job_ = each;
      return;
    }
    old.sequence.store(0, std::memory_order_relaxed);
  }
  oldest_job_ = sequence;
}

void Mailbox::publish(std::uint64_t sequence, const GroupJob* groups, std::uint32_t num_groups) {
  std::atomic<std::uint64_t>& published = inbox().published;
  TANDEM_CHECK(sequence > published.load(std::memory_order_relaxed), "job {} after {}", sequence,
               published.load(std::memory_order_relaxed));
  TANDEM_CHECK(num_groups <= kMaxColdGroups, "{} groups", num_groups);
  for (std::uint32_t i = 0; i < num_groups; ++i) {
    check_group(shape_, groups[i]);
    TANDEM_CHECK(i == 0 || groups[i - 1].group < groups[i].group, "group {} after {}",
                 groups[i].group, groups[i - 1].group);
  }

  make_room(sequence, num_groups);
  Job& slot = job(sequence);
  slot.sequence.store(0, std::memory_order_relaxed);
  // release: pairs with the acquire fence in read_job(). A reader that saw any word below also sees
  // the zeros above.
  std::atomic_thread_fence(std::memory_order_release);
  for (std::uint32_t i = 0; i < num_groups; ++i) {
    store_words(group_job(next_group_ + i), groups[i]);
  }
  std::atomic_ref(slot.first_group).store(next_group_, std::memory_order_relaxed);
  std::atomic_ref(slot.num_groups).store(num_groups, std::memory_order_relaxed);
  next_group_ += num_groups;
  // release: pairs with the first acquire in read_job().
  slot.sequence.store(sequence, std::memory_order_release);
  // release: pairs with the worker's acquire of `published`, which then finds the job.
  published.store(sequence, std::memory_order_release);
}

void Mailbox::retire_before(std::uint64_t sequence) {
  const std::uint64_t published = inbox().published.load(std::memory_order_relaxed);
  TANDEM_CHECK(sequence <= published + 1, "jobs before {} of {}", sequence, published);
  std::atomic<std::uint64_t>& first_live = inbox().first_live;
  if (sequence <= first_live.load(std::memory_order_relaxed)) return;
  // release: pairs with the worker's acquire of `first_live`.
  first_live.store(sequence, std::memory_order_release);
}

void Mailbox::wake_workers() {
  // release: a worker that sees the new value (acquire) sees what was published before it.
  inbox().wake.fetch_add(1, std::memory_order_release);
  futex_wake_all(inbox().wake);
}

void Mailbox::stop_workers() {
  // release: pairs with the worker's acquire of `stop`; nothing but the flag hangs on it.
  inbox().stop.store(1, std::memory_order_release);
  wake_workers();
}

void Mailbox::restore_outbox_header() {
  const MailboxLayout layout = layout_of(shape_).value();
  if (check_outbox(outbox_, shape_, layout)) return;
  write_header(*reinterpret_cast<OutboxHeader*>(outbox_.data()), shape_, layout);
}

bool Mailbox::quiet(std::uint64_t workers, std::uint64_t sequence, std::uint64_t held) const {
  for (std::uint32_t i = 0; i < shape_.num_seats; ++i) {
    if ((workers >> i & 1) == 0) continue;
    const Seat& at = seat(static_cast<int>(i));
    // acquire: pairs with the release by which a worker leaves its seat, or the pool empties it.
    if (at.pid.load(std::memory_order_acquire) == 0 && (held >> i & 1) == 0) continue;
    // acquire: pairs with the worker's release of `progress`, after its last access to the job.
    const std::uint64_t progress = at.progress.load(std::memory_order_acquire);
    const std::uint64_t published = inbox().published.load(std::memory_order_relaxed);
    if (progress < sequence || progress > published) return false;
  }
  return true;
}

bool Mailbox::read_job(std::uint64_t sequence, JobCopy& out) const {
  Job& slot = job(sequence);
  // acquire: pairs with the release in publish(), which comes after the description.
  if (sequence == 0 || slot.sequence.load(std::memory_order_acquire) != sequence) return false;
  const std::uint64_t first = std::atomic_ref(slot.first_group).load(std::memory_order_relaxed);
  const std::uint32_t count = std::atomic_ref(slot.num_groups).load(std::memory_order_relaxed);
  if (count > kMaxColdGroups) return false;  // overwritten meanwhile, by garbage
  for (std::uint32_t i = 0; i < count; ++i) load_words(out.groups[i], group_job(first + i));
  // acquire: pairs with the release fence in publish(): had any word above been overwritten, the
  // job's sequence would no longer be there.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (slot.sequence.load(std::memory_order_relaxed) != sequence) return false;
  out.num_groups = count;
  return true;
}

void Mailbox::sleep(std::uint32_t wake, double timeout_s) const {
  futex_wait(inbox().wake, wake, timeout_s);
}

}  // namespace tandem
