//! What controllers and operators ask a switch for.

use super::{Client, ClientError};
use crate::{
    Body, Description, Experiment, FlowFilter, FlowMod, FlowStats, MAX_PUT_OCTETS, PacketOut, Port,
    PortNumber, PortStats, ProgramStats, ReplyBody, Request, Role,
};

/// Octets of a program in one part.
const PART_OCTETS: usize = 32 * 1024;

impl Client {
    /// Asks a question about much; the parts of the answer, in order.
    ///
    /// # Errors
    /// What the switch refuses it with, or why no answer came.
    pub fn multipart(&mut self, request: Request) -> Result<Vec<ReplyBody>, ClientError> {
        let xid = self.send(Body::MultipartRequest(request, false))?;
        let mut parts = Vec::new();
        loop {
            let Body::MultipartReply(reply) = self.answer(xid)? else {
                return Err(ClientError::Unexpected("a multipart request"));
            };
            parts.push(reply.body);
            if !reply.more {
                return Ok(parts);
            }
        }
    }

    /// Adds, changes or deletes flows, and waits until that is done.
    ///
    /// # Errors
    /// What the switch refuses it with, or why no answer came.
    pub fn flow_mod(&mut self, change: FlowMod) -> Result<(), ClientError> {
        self.change(Body::FlowMod(change))
    }

    /// The flows that the filter is for.
    ///
    /// # Errors
    /// What the switch refuses it with, or why no answer came.
    pub fn flows(&mut self, filter: FlowFilter) -> Result<Vec<FlowStats>, ClientError> {
        self.entries(Request::Flows(filter), "flows", |part| match part {
            ReplyBody::Flows(flows) => Some(flows),
            _ => None,
        })
    }

    /// The switch's ports.
    ///
    /// # Errors
    /// What the switch refuses it with, or why no answer came.
    pub fn ports(&mut self) -> Result<Vec<Port>, ClientError> {
        self.entries(Request::Ports, "ports", |part| match part {
            ReplyBody::Ports(ports) => Some(ports),
            _ => None,
        })
    }

    /// Counters of a port, or of all for [`PortNumber::ANY`].
    ///
    /// # Errors
    /// What the switch refuses it with, or why no answer came.
    pub fn port_stats(&mut self, port: PortNumber) -> Result<Vec<PortStats>, ClientError> {
        self.entries(Request::PortStats(port), "counters of ports", |part| match part {
            ReplyBody::PortStats(stats) => Some(stats),
            _ => None,
        })
    }

    /// What the switch says that it is.
    ///
    /// # Errors
    /// What the switch refuses it with, or why no answer came.
    pub fn description(&mut self) -> Result<Description, ClientError> {
        match self.multipart(Request::Description)?.pop() {
            Some(ReplyBody::Description(description)) => Ok(description),
            _ => Err(ClientError::Unexpected("a description")),
        }
    }

    /// Programs that the switch has, and their counters.
    ///
    /// # Errors
    /// What the switch refuses it with, or why no answer came.
    pub fn programs(&mut self) -> Result<Vec<ProgramStats>, ClientError> {
        self.entries(Request::Programs, "programs", |part| match part {
            ReplyBody::Programs(programs) => Some(programs),
            _ => None,
        })
    }

    /// Sends a program (an ELF file) in as many messages as it takes, and waits until the switch has taken it.
    ///
    /// # Errors
    /// Why the switch does not take it, or why no answer came.
    pub fn put_program(&mut self, program: u32, elf: &[u8]) -> Result<(), ClientError> {
        if elf.len() <= MAX_PUT_OCTETS {
            return self.experiment(Experiment::Put { program, octets: elf.to_vec() });
        }
        let total_len = u32::try_from(elf.len()).map_err(|_| ClientError::TooLong)?;
        let mut offset = 0;
        for part in elf.chunks(PART_OCTETS) {
            let octets = part.to_vec();
            self.experiment(Experiment::PutPart { program, total_len, offset, octets })?;
            offset += part.len() as u32;
        }
        Ok(())
    }

    /// Asks for a program, as it was put.
    ///
    /// # Errors
    /// What the switch refuses it with, or why no answer came.
    pub fn program(&mut self, program: u32) -> Result<Vec<u8>, ClientError> {
        let xid = self.send(Body::Experimenter(Experiment::Get { program }))?;
        let mut elf = Vec::new();
        loop {
            match self.answer(xid)? {
                Body::Experimenter(Experiment::Put { octets, .. }) => return Ok(octets),
                Body::Experimenter(Experiment::PutPart { total_len, offset, octets, .. })
                    if offset as usize == elf.len() && !octets.is_empty() =>
                {
                    elf.extend(octets);
                    if elf.len() == total_len as usize {
                        return Ok(elf);
                    }
                }
                _ => return Err(ClientError::Unexpected("a program")),
            }
        }
    }

    /// Deletes a program.
    ///
    /// # Errors
    /// What the switch refuses it with, or why no answer came.
    pub fn delete_program(&mut self, program: u32) -> Result<(), ClientError> {
        self.experiment(Experiment::Delete { program })
    }

    /// Gives a parameter of a program these octets. No octets take it away.
    ///
    /// # Errors
    /// What the switch refuses it with, or why no answer came.
    pub fn set_parameter(
        &mut self,
        program: u32,
        parameter: u32,
        octets: &[u8],
    ) -> Result<(), ClientError> {
        let octets = octets.to_vec();
        self.experiment(Experiment::SetParameter { program, parameter, octets })
    }

    /// Asks to be this to the switch: what the client now is, and the latest generation.
    ///
    /// # Errors
    /// What the switch refuses it with, or why no answer came.
    pub fn role(&mut self, role: Role, generation: u64) -> Result<(Role, u64), ClientError> {
        match self.request(Body::RoleRequest(role, generation))? {
            Body::RoleReply(role, generation) => Ok((role, generation)),
            _ => Err(ClientError::Unexpected("a role")),
        }
    }

    /// Sends a packet through the switch, without waiting.
    ///
    /// # Errors
    /// When the connection has failed, or the packet is too long for a message.
    pub fn packet_out(&mut self, packet: PacketOut) -> Result<(), ClientError> {
        self.send(Body::PacketOut(packet)).map(drop)
    }

    fn experiment(&mut self, experiment: Experiment) -> Result<(), ClientError> {
        match self.request(Body::Experimenter(experiment))? {
            Body::Experimenter(Experiment::Acknowledge { .. }) => Ok(()),
            _ => Err(ClientError::Unexpected("an acknowledgement")),
        }
    }

    fn entries<T>(
        &mut self,
        request: Request,
        what: &'static str,
        take: impl Fn(ReplyBody) -> Option<Vec<T>>,
    ) -> Result<Vec<T>, ClientError> {
        let mut all = Vec::new();
        for part in self.multipart(request)? {
            all.extend(take(part).ok_or(ClientError::Unexpected(what))?);
        }
        Ok(all)
    }
}
