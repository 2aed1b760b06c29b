// A small mailbox, as the engine makes it and as a worker sees it.
#pragma once

#include <gtest/gtest.h>

#include <utility>

#include "shm/mailbox.h"

namespace tandem {

inline MailboxShape small_shape() {
  return {.dtype = DType::bf16,
          .num_worker_slots = 3,
          .max_rows = 20,
          .max_in = 48,
          .max_out = 100,
          .max_rank = 8};
}

inline Mailbox make_mailbox(const MailboxShape& shape = small_shape()) {
  auto mailbox = Mailbox::create(shape, -1);
  EXPECT_TRUE(mailbox.ok()) << mailbox.status().message();
  return std::move(mailbox).value();
}

// Opens another view of the mailbox, as a worker does.
inline Mailbox open_mailbox(const Mailbox& made) {
  auto mailbox = Mailbox::open(made.inbox_region().name(), made.outbox_region().name());
  EXPECT_TRUE(mailbox.ok()) << mailbox.status().message();
  return std::move(mailbox).value();
}

}  // namespace tandem
