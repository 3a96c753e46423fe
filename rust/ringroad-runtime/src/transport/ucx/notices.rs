//! Notices: short messages that are looked for now and then, so that nobody need keep a receive posted for them.

use super::requests::{Post, Purpose};
use super::UcxTransport;
use crate::transport::{Kind, Tag};

impl UcxTransport {
    /// Starts to receive the notices that have arrived; `drain` reports them.
    pub(super) fn take_notices(&mut self) {
        let control = Tag { source: 0, kind: Kind::Control, sequence: 0, message: 0, check: 0 }.pack();
        for (index, device) in self.devices.iter().enumerate() {
            while let Some((message, info)) = device.take(control, Tag::KIND) {
                let peer = Tag::unpack(info.sender_tag).source;
                let post = Post { purpose: Purpose::NoticeIn, peer, device: index, request: 0 };
                // A notice that cannot be received is lost, which its sender was told to expect.
                let _ = self.slots.receive_probed(device.worker, post, message, info);
            }
        }
    }
}
