#include "shm/mailbox.h"

#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

namespace tandem {
namespace {

constexpr std::uint64_t kPage = 4096;

constexpr std::uint32_t v_row_of(const MailboxShape& shape) {
  return std::max(shape.max_rank * kMaxModulesOfJob * kVPlanesOfWidest, kLeastVRow);
}

constexpr std::uint64_t to_page(std::uint64_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

// The largest possible region: every sum and product below stays far from overflow.
static_assert(std::uint64_t{kMaxMailboxRows} * kMaxMailboxWidth * 4 +
                  std::uint64_t{kMaxMailboxRows} * kMaxMailboxRank * kMaxModulesOfJob * 4 *
                      kVPlanesOfWidest <
              std::uint64_t{1} << 48);

Status check_field(const char* name, std::uint32_t value, std::uint32_t most) {
  if (value >= 1 && value <= most) return {};
  return invalid("mailbox: {} is {}, not within 1 to {}", name, value, most);
}

// Checks one field of a header that open() reads against the value that the shape gives.
Status check_offset(const char* name, std::uint64_t value, std::uint64_t expected) {
  if (value == expected) return {};
  return invalid("{} is {} where the shape puts it at {}: the header is damaged", name, value,
                 expected);
}

// Checks the identity fields, which both headers have.
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
  return MailboxShape{header->dtype,  header->num_worker_slots, header->max_rows,
                      header->max_in, header->max_out,          header->max_rank};
}

Status check_inbox(const ShmRegion& region, const MailboxLayout& layout) {
  const InboxHeader& header = *reinterpret_cast<const InboxHeader*>(region.data());
  TANDEM_TRY(check_offset("bytes", header.bytes, layout.inbox_bytes));
  TANDEM_TRY(check_offset("doorbells", header.doorbells, layout.doorbells));
  TANDEM_TRY(check_offset("jobs", header.jobs, layout.jobs));
  TANDEM_TRY(check_offset("group_jobs", header.group_jobs, layout.group_jobs));
  return check_offset("x", header.x, layout.x);
}

Status check_outbox(const ShmRegion& region, const MailboxShape& shape,
                    const MailboxLayout& layout) {
  TANDEM_ASSIGN(const OutboxHeader* header, header_of<OutboxHeader>(region));
  TANDEM_TRY(check_identity(*header, region, kOutboxMagic));
  if (header->num_worker_slots != shape.num_worker_slots) {
    return invalid("it has {} worker slots and its inbox {}: they are not a pair",
                   header->num_worker_slots, shape.num_worker_slots);
  }
  TANDEM_TRY(check_offset("bytes", header->bytes, layout.outbox_bytes));
  TANDEM_TRY(check_offset("worker slots", header->worker_slots, layout.worker_slots));
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
  outbox.num_worker_slots = shape.num_worker_slots;
  outbox.bytes = layout.outbox_bytes;
  outbox.worker_slots = layout.worker_slots;
  outbox.v = layout.v;
  outbox.y = layout.y;
  publish_header(outbox);
}

}  // namespace

Result<MailboxLayout> layout_of(const MailboxShape& shape) {
  if (shape.dtype != DType::f32 && shape.dtype != DType::f16 && shape.dtype != DType::bf16) {
    return invalid("mailbox: dtype {} is none of activations", static_cast<int>(shape.dtype));
  }
  TANDEM_TRY(check_field("num_worker_slots", shape.num_worker_slots, kMaxWorkerSlots));
  TANDEM_TRY(check_field("max_rows", shape.max_rows, kMaxMailboxRows));
  TANDEM_TRY(check_field("max_in", shape.max_in, kMaxMailboxWidth));
  TANDEM_TRY(check_field("max_out", shape.max_out, kMaxMailboxWidth));
  TANDEM_TRY(check_field("max_rank", shape.max_rank, kMaxMailboxRank));
  const std::uint64_t rows = shape.max_rows;
  const std::uint64_t element = size_of(shape.dtype);
  MailboxLayout layout;
  layout.doorbells = sizeof(InboxHeader);
  layout.jobs = layout.doorbells + kMaxColdGroups * sizeof(Doorbell);
  layout.group_jobs = layout.jobs + kNumJobs * sizeof(Job);
  layout.x = to_page(layout.group_jobs + kNumGroupJobs * sizeof(GroupJob));
  layout.inbox_bytes = layout.x + rows * shape.max_in * element;
  layout.worker_slots = sizeof(OutboxHeader);
  layout.v = to_page(layout.worker_slots + shape.num_worker_slots * sizeof(WorkerSlot));
  layout.y = layout.v + to_page(rows * v_row_of(shape) * sizeof(float));
  layout.outbox_bytes = layout.y + rows * shape.max_out * element;
  return layout;
}

Mailbox::Mailbox(const MailboxShape& shape, const MailboxLayout& layout, ShmRegion inbox,
                 ShmRegion outbox)
    : shape_(shape), inbox_(std::move(inbox)), outbox_(std::move(outbox)) {
  // Offsets come from the layout, never from a header: workers may write into the outbox's any
  // time.
  doorbells_ = reinterpret_cast<Doorbell*>(inbox_.data() + layout.doorbells);
  jobs_ = reinterpret_cast<Job*>(inbox_.data() + layout.jobs);
  group_jobs_ = reinterpret_cast<GroupJob*>(inbox_.data() + layout.group_jobs);
  x_ = inbox_.data() + layout.x;
  worker_slots_ = reinterpret_cast<WorkerSlot*>(outbox_.data() + layout.worker_slots);
  v_ = reinterpret_cast<float*>(outbox_.data() + layout.v);
  y_ = outbox_.data() + layout.y;
}

Result<Mailbox> Mailbox::create(const MailboxShape& shape, int node) {
  TANDEM_ASSIGN(const MailboxLayout layout, layout_of(shape));
  TANDEM_ASSIGN(ShmRegion in, ShmRegion::create("inbox", layout.inbox_bytes, node));
  TANDEM_ASSIGN(ShmRegion out, ShmRegion::create("outbox", layout.outbox_bytes, node));

  // Workers' answers are checked, and a missing one counts as late.
  in.survive_truncation();
  out.survive_truncation();

  Mailbox mailbox(shape, layout, std::move(in), std::move(out));
  auto& inbox = *new (mailbox.inbox_.data()) InboxHeader{};
  for (int i = 0; i < kMaxColdGroups; ++i) new (&mailbox.doorbells_[i]) Doorbell{};
  for (std::uint64_t i = 0; i < kNumJobs; ++i) new (&mailbox.jobs_[i]) Job{};
  inbox.magic = kInboxMagic;
  inbox.dtype = shape.dtype;
  inbox.num_worker_slots = shape.num_worker_slots;
  inbox.max_rows = shape.max_rows;
  inbox.max_in = shape.max_in;
  inbox.max_out = shape.max_out;
  inbox.max_rank = shape.max_rank;
  inbox.node = node;
  inbox.bytes = layout.inbox_bytes;
  inbox.pid = static_cast<std::uint32_t>(::getpid());
  inbox.doorbells = layout.doorbells;
  inbox.jobs = layout.jobs;
  inbox.group_jobs = layout.group_jobs;
  inbox.x = layout.x;

  auto& outbox = *new (mailbox.outbox_.data()) OutboxHeader{};
  for (std::uint32_t i = 0; i < shape.num_worker_slots; ++i)
    new (&mailbox.worker_slots_[i]) WorkerSlot{};
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
  return v_ + std::uint64_t{first_row} * v_row();
}

std::uint32_t Mailbox::v_row() const {
  return v_row_of(shape_);
}

std::byte* Mailbox::y_of(std::uint32_t first_row) const {
  return y_ + std::uint64_t{first_row} * shape_.max_out * size_of(shape_.dtype);
}

void Mailbox::restore_outbox_header() {
  const MailboxLayout layout = layout_of(shape_).value();
  if (check_outbox(outbox_, shape_, layout)) return;
  write_header(*reinterpret_cast<OutboxHeader*>(outbox_.data()), shape_, layout);
}

}  // namespace tandem
